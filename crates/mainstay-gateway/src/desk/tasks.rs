//! Tasks: work that goes on at a server when its call has been answered.
//!
//! To clients of the union a task has an id that says whose it is, so that asking for it finds its server with nothing
//! remembered. Of a session's own tasks the latest are remembered all the same: a shared server lists those of everybody,
//! and tells of theirs, and none of that is a bystander's concern.

mod following;
mod ids;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mainstay::message::{Object, RawJson, RpcError};
use mainstay::{CallOptions, Era, Server};

use super::naming::{string, unknown};
use super::passing::{answer, as_sent, forward};
use super::{Desk, Request};
use crate::protocol::{invalid_params, text};
use crate::scope::Scope;
pub(super) use following::MAX_FOLLOWED;
pub(crate) use ids::{as_known, shown};
use ids::{parted, public_id, with_public_id, with_public_relation};

/// The extension by which modern servers offer tasks.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Tasks of one session that are remembered. The oldest are forgotten: they can be asked for, but are not listed.
const MAX_TASKS: usize = 1024;

/// How long one server may take to list its tasks.
const LISTING: Duration = Duration::from_secs(5);

/// The tasks that a session has begun, by their public ids.
#[derive(Default)]
pub(crate) struct OwnTasks(Mutex<VecDeque<String>>);

impl OwnTasks {
    fn note(&self, id: String) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= MAX_TASKS {
            tasks.pop_front();
        }
        tasks.push_back(id);
    }

    /// Whether it has begun this task of this server.
    pub(super) fn has(&self, server: &str, id: &str) -> bool {
        let public = public_id(server, id);
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.contains(&public)
    }

    /// Whether it has begun any task at this server.
    pub(super) fn any_at(&self, server: &str) -> bool {
        let prefix = public_id(server, "");
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().any(|task| task.starts_with(&prefix))
    }
}

impl Desk {
    /// A request about one task, for the server that has it.
    pub(super) async fn pass_task(&self, mut request: Request<'_>) -> Result<RawJson, RpcError> {
        let id = string(&request.params, "taskId")?;
        let none = || unknown("task", &id);
        let (server, own) = parted(&id).ok_or_else(none)?;
        self.fleet().server(&server).ok_or_else(none)?;
        let reached = self.reach(request.client, &server)?;
        let mut params = request.take_params();
        params.set("taskId", text(own));
        let options = match request.client.era {
            Era::Legacy => reached.options(request.client),
            Era::Modern => CallOptions::default().handler(request.client.clone()),
        };
        let params = as_sent(&request, params);
        let reply = forward(&reached.server, &request, params, options).await;
        answer(&request, reached.server.name(), reply)
    }

    /// The session's own tasks at all servers that list theirs, in the order of the servers' names. A page ends where a
    /// server's does. A server that cannot be asked now is named in `_meta`.
    pub(super) async fn list_tasks(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let (from, mut cursor) = place(request.params.as_raw())?;
        let mut tasks = Vec::new();
        let mut unasked = Vec::new();
        let mut next = None;
        for server in self.fleet().servers() {
            let is_before = from.as_deref().is_some_and(|from| server.name() < from);
            let has_any = request.client.tasks.any_at(server.name());
            if is_before || !has_any || !self.lists_tasks(&server) {
                continue;
            }
            let Ok(reached) = self.reach(request.client, server.name()) else {
                unasked.push(server.name().to_owned());
                continue;
            };
            let of_this = from.as_deref() == Some(server.name());
            // What the server logs meanwhile is this session's, as with every call.
            let options = reached.options(request.client);
            let page = page(&reached.server, cursor.take().filter(|_| of_this), options).await;
            let Some((listed, more)) = page else {
                unasked.push(server.name().to_owned());
                continue;
            };
            tasks.extend(listed.iter().filter_map(|task| {
                let mut task = Object::parse(task)?;
                let id: String = task.get("taskId")?.parse().ok()?;
                task.set("taskId", text(&public_id(server.name(), &id)));
                let is_own = request.client.tasks.has(server.name(), &id);
                is_own.then(|| task.to_raw())
            }));
            if let Some(more) = more {
                next = Some(public_id(server.name(), &more));
                break;
            }
        }
        let mut result = Object::default();
        result.set("tasks", RawJson::from_value(&tasks).unwrap_or(RawJson::NULL));
        if let Some(next) = next {
            result.set("nextCursor", text(&next));
        }
        if !unasked.is_empty() {
            let meta = serde_json::json!({ "mainstay": { "unavailable": unasked } });
            result.set(
                "_meta",
                RawJson::from_value(&meta).unwrap_or(RawJson::EMPTY_OBJECT),
            );
        }
        Ok(result.to_raw())
    }

    fn lists_tasks(&self, server: &Server) -> bool {
        let catalog = self.fleet().catalog();
        let capabilities = catalog
            .server(server.name())
            .and_then(|known| Object::parse(known.about().capabilities.as_ref()?));
        capabilities
            .and_then(|capabilities| Object::parse(capabilities.get("tasks")?))
            .is_some_and(|tasks| tasks.get("list").is_some())
    }
}

/// A result of a server as the client is to see it; a task that was begun is noted as the session's.
pub(super) fn published(request: &Request<'_>, server: &str, result: RawJson) -> RawJson {
    let of_union = matches!(request.client.scope, Scope::Union);
    let asked_for_task = || {
        let came = request.params.as_raw();
        came.is_some_and(|came| came.as_str().contains("\"task\"")) && request.params.get("task").is_some()
    };
    match request.method {
        "tools/call" if asked_for_task() => begun(request, server, result),
        // A modern server begins a task where it sees fit.
        "tools/call" if of_union && request.client.era == Era::Modern => {
            // The search for the word is many times quicker than a look into a large result.
            let may_be = Some(&result).filter(|result| result.as_str().contains("\"task\""));
            let is_task = may_be
                .and_then(Object::parse)
                .and_then(|result| result.get("resultType")?.parse::<String>().ok())
                .is_some_and(|kind| kind == "task");
            if is_task {
                with_public_id(server, result)
            } else {
                result
            }
        }
        "tasks/get" | "tasks/cancel" if of_union => with_public_id(server, result),
        "tasks/result" if of_union => with_public_relation(server, result),
        _other => result,
    }
}

/// The result of a call that asked for a task.
fn begun(request: &Request<'_>, server: &str, result: RawJson) -> RawJson {
    let Some(mut object) = Object::parse(&result) else {
        return result;
    };
    let Some(task) = object.get("task").cloned() else {
        return result;
    };
    if let Some(id) = Object::parse(&task).and_then(|task| task.get("taskId")?.parse::<String>().ok()) {
        request.client.tasks.note(public_id(server, &id));
    }
    match request.client.scope {
        Scope::Union => {
            object.set("task", with_public_id(server, task));
            object.to_raw()
        }
        Scope::Server(_) => result,
    }
}

/// The server that a cursor is of, and that server's own cursor.
fn place(params: Option<&RawJson>) -> Result<(Option<String>, Option<String>), RpcError> {
    let cursor = params
        .and_then(Object::parse)
        .and_then(|params| params.get("cursor").cloned())
        .filter(|cursor| *cursor != RawJson::NULL);
    let Some(cursor) = cursor else {
        return Ok((None, None));
    };
    let cursor: Option<String> = cursor.parse().ok();
    let place = cursor.as_deref().and_then(parted);
    let (server, own) =
        place.ok_or_else(|| invalid_params("the cursor is not one of this gateway: list again"))?;
    Ok((Some(server), Some(own.to_owned())))
}

/// One page of a server's tasks and the cursor of the next; `None` when it cannot be had now.
async fn page(
    server: &Server,
    cursor: Option<String>,
    options: CallOptions,
) -> Option<(Vec<RawJson>, Option<String>)> {
    let params = cursor.map(|cursor| serde_json::json!({ "cursor": cursor }));
    let params = params.and_then(|params| RawJson::from_value(&params).ok());
    let options = options.fail_fast().timeout(LISTING);
    let reply = server.forward("tasks/list", params, options).await.ok()?;
    let page = Object::parse(&reply.result)?;
    let next = page.get("nextCursor").and_then(|next| next.parse().ok());
    Some((page.get("tasks")?.parse().ok()?, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_session_s_tasks_the_latest_are_remembered() {
        let tasks = OwnTasks::default();
        for n in 0..=MAX_TASKS {
            tasks.note(public_id("a", &n.to_string()));
        }
        assert!(!tasks.has("a", "0"));
        assert!(tasks.has("a", "1") && tasks.has("a", &MAX_TASKS.to_string()));
        assert!(!tasks.has("b", "1"));
    }
}
