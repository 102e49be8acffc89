//! The ids of tasks: to clients of the union each says which server has it.

use mainstay::message::{Object, RawJson};

use crate::protocol::text;
use crate::scope::Scope;

/// The key in `_meta` that names the task which a message belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The id of a task of this server, as clients of the union know it.
pub(super) fn public_id(server: &str, id: &str) -> String {
    let server = server.replace('%', "%25").replace('/', "%2F");
    format!("{server}/{id}")
}

/// The server of a public id, and the id that it gave.
pub(super) fn parted(public: &str) -> Option<(String, &str)> {
    let (server, id) = public.split_once('/')?;
    Some((server.replace("%2F", "/").replace("%25", "%"), id))
}

/// What a server asks or tells of a task, as the client is to see it.
pub(crate) fn shown(scope: &Scope, server: &str, method: &str, params: Option<RawJson>) -> Option<RawJson> {
    let params = params?;
    match scope {
        Scope::Union if params.as_str().contains("taskId") => {
            let params = with_public_relation(server, params);
            Some(match method {
                "notifications/tasks/status" | "notifications/tasks" => with_public_id(server, params),
                _other => params,
            })
        }
        Scope::Union | Scope::Server(_) => Some(params),
    }
}

/// What a client answers about a task, as the server knows it.
pub(crate) fn as_known(scope: &Scope, answer: RawJson) -> RawJson {
    match scope {
        Scope::Union if answer.as_str().contains(RELATED) => {
            with_relation(answer, |id| parted(id).map(|(_, own)| own.to_owned()))
        }
        Scope::Union | Scope::Server(_) => answer,
    }
}

pub(super) fn with_public_id(server: &str, task: RawJson) -> RawJson {
    let Some(mut object) = Object::parse(&task) else {
        return task;
    };
    let Some(id) = object.get("taskId").and_then(|id| id.parse::<String>().ok()) else {
        return task;
    };
    object.set("taskId", text(&public_id(server, &id)));
    object.to_raw()
}

pub(super) fn with_public_relation(server: &str, message: RawJson) -> RawJson {
    with_relation(message, |id| Some(public_id(server, id)))
}

/// The same with another id of the task that it belongs to, if it belongs to one.
fn with_relation(message: RawJson, renamed: impl FnOnce(&str) -> Option<String>) -> RawJson {
    let changed = || {
        let mut object = Object::parse(&message)?;
        let mut meta = Object::parse(object.get("_meta")?)?;
        let mut related = Object::parse(meta.get(RELATED)?)?;
        let id: String = related.get("taskId")?.parse().ok()?;
        related.set("taskId", text(&renamed(&id)?));
        meta.set(RELATED, related.to_raw());
        object.set("_meta", meta.to_raw());
        Some(object.to_raw())
    };
    changed().unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_id_leads_back_to_its_server_and_the_id_that_it_gave() {
        for (server, id) in [
            ("a", "1"),
            ("a/b", "x/y"),
            ("100%", ""),
            ("a%2Fb", "%2F"),
            ("é", "a b"),
        ] {
            let public = public_id(server, id);
            assert_eq!(parted(&public), Some((server.to_owned(), id)), "{public}");
        }
        assert_eq!(parted("no-server"), None);
        assert_ne!(public_id("a/b", "c"), public_id("a", "b/c"));
    }
}
