//! The tools that say something while they run.

#![expect(deprecated, reason = "logging is deprecated, and the suite looks for it")]

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::RequestContext;
use tokio::time::sleep;

/// Long enough that a client sees the steps apart.
const STEP: Duration = Duration::from_millis(50);

pub(crate) fn is_legacy(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_none_or(|version| version < ProtocolVersion::V_2026_07_28)
}

/// Logs three lines; `session` is the level that a legacy client has set, a modern one says it with each request.
pub(crate) async fn log(context: &RequestContext<RoleServer>, session: LoggingLevel) -> String {
    let least = if is_legacy(context) {
        Some(session)
    } else {
        context.meta.log_level()
    };
    let is_wanted = least.is_some_and(|least| least as u8 <= LoggingLevel::Info as u8);
    for line in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ] {
        if is_wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, line.into());
            // A client that is gone ends the request itself.
            let _ = context.peer.notify_logging_message(message).await;
        }
        sleep(STEP).await;
    }
    "logged".to_owned()
}

/// Reports progress in three steps, where the client asked for it.
pub(crate) async fn progress(context: &RequestContext<RoleServer>) -> String {
    for progress in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, progress).with_total(100.0);
            let _ = context.peer.notify_progress(progress).await;
        }
        sleep(STEP).await;
    }
    "progressed".to_owned()
}
