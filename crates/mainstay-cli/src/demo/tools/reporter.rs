//! What a running call tells the client before its answer.

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::demo::protocol::{self, LOG_LEVELS};

/// Reports for one call, as far as the client asked for it.
pub(in crate::demo) struct Reporter {
    output: mpsc::Sender<String>,
    progress_token: Option<Value>,
    log_threshold: Option<&'static str>,
}

impl Reporter {
    /// A reporter for the call with these params. Without a threshold nothing is logged.
    pub(in crate::demo) fn new(
        output: mpsc::Sender<String>,
        params: &Map<String, Value>,
        log_threshold: Option<&'static str>,
    ) -> Self {
        let token = params.get("_meta").and_then(|meta| meta.get("progressToken"));
        let progress_token = token
            .filter(|token| token.is_string() || token.is_number())
            .cloned();
        Self {
            output,
            progress_token,
            log_threshold,
        }
    }

    pub(super) async fn progress(&self, done: impl Into<Value>, total: impl Into<Value>, message: &str) {
        if let Some(token) = &self.progress_token {
            let (done, total) = (done.into(), total.into());
            let params =
                json!({ "progressToken": token, "progress": done, "total": total, "message": message });
            self.send("notifications/progress", params).await;
        }
    }

    /// Whether the message was sent.
    pub(super) async fn log(&self, level: &'static str, message: &str) -> bool {
        let rank = |level: &str| LOG_LEVELS.iter().position(|known| *known == level);
        let wanted = self
            .log_threshold
            .is_some_and(|threshold| rank(level) >= rank(threshold));
        if wanted {
            let params = json!({ "level": level, "logger": "demo", "data": message });
            self.send("notifications/message", params).await;
        }
        wanted
    }

    async fn send(&self, method: &str, params: Value) {
        // A client that no longer reads misses nothing.
        let _gone = self.output.send(protocol::notification(method, &params)).await;
    }
}
