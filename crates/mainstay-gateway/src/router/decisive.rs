//! The parameters by which the gateway decides where a request goes, and whether its client may make it.
//!
//! The gateway passes parameters on as they came. If a name is there twice, servers differ in which one they read; some also ignore the
//! case. A client could so show one tool or task to the gateway, and another to the server. Such parameters are refused.

use mainstay::gateway::message::{Object, Params, RpcError};

use super::tasks::RELATED;
use crate::protocol::invalid_params;

/// Refuses parameters in which a server could read another name than the gateway does.
pub(super) fn check(method: &str, params: &Params) -> Result<(), RpcError> {
    let names = decisive(method);
    if names.len() > 1 && params.as_raw().is_some_and(|raw| !raw.as_str().starts_with('{')) {
        return Err(invalid_params(format!(
            "the parameters of {method} are no object"
        )));
    }
    if let Some(name) = params.ambiguous(names) {
        return Err(ambiguous(name));
    }
    let Some(meta) = params.meta() else { return Ok(()) };
    if let Some(name) = meta.ambiguous(&[RELATED]) {
        return Err(ambiguous(name));
    }
    let related = meta.get(RELATED).and_then(Object::parse);
    match related
        .as_ref()
        .and_then(|related| related.ambiguous(&["taskId"]))
    {
        Some(name) => Err(ambiguous(name)),
        None => Ok(()),
    }
}

/// The names of the parameters by which the gateway decides about a request of this method.
fn decisive(method: &str) -> &'static [&'static str] {
    match method {
        "tools/call" => &["_meta", "name", "task"],
        "prompts/get" => &["_meta", "name"],
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => &["_meta", "uri"],
        "completion/complete" => &["_meta", "ref"],
        task if task.starts_with("tasks/") => &["_meta", "taskId"],
        _other => &["_meta"],
    }
}

fn ambiguous(name: &str) -> RpcError {
    invalid_params(format!("the parameters have {name:?} twice, or in another case"))
}
