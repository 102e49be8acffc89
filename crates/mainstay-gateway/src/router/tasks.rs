//! Tasks: work that goes on at a server when its call has been answered.
//!
//! A task belongs to the principal that began it. The id that a client is given is sealed for it (`ids`), so that asking for a
//! task finds its server, and refuses everybody else, with nothing remembered. Of a principal's tasks the latest are
//! remembered all the same: a shared server lists those of all clients, and tells of theirs.

mod following;
mod ids;
mod relation;

use std::time::Duration;

use mainstay::message::{Object, RawJson, RpcError};
use mainstay::{CallOptions, Era, Server};
use serde::Serialize;
use serde_json::json;

use super::naming::{string, unknown};
use super::passing::{answer, as_sent, forward};
use super::{Request, Router};
use crate::protocol::{invalid_params, text};
pub(super) use following::MAX_FOLLOWED;
pub(crate) use ids::{OwnTasks, Tasks};
use ids::{at_server, parted};
use relation::Relation;

/// The extension by which modern servers offer tasks.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How long one server may take to list its tasks.
const LISTING: Duration = Duration::from_secs(5);

impl Router {
    /// A request about one task, for the server that has it.
    pub(super) async fn pass_task(&self, mut request: Request<'_>) -> Result<RawJson, RpcError> {
        let id = string(&request.params, "taskId")?;
        let none = || unknown("task", &id);
        let own = &request.client.tasks;
        let (server, given) = own.known(&id).ok_or_else(none)?;
        self.fleet().server(&server).ok_or_else(none)?;
        let reached = self.reach(request.client, &server)?;
        if !own.are_all() {
            // Only its principal could show this id: what the server asks for the task is for this client.
            own.note(&server, &given);
        }
        let mut params = request.take_params();
        if given != id {
            params.set("taskId", text(&given));
        }
        let options = match request.client.era {
            Era::Legacy => reached.options(request.client),
            Era::Modern => CallOptions::default().handler(request.client.clone()),
        };
        let params = as_sent(&request, params);
        let reply = forward(&reached.server, &request, params, options).await;
        answer(&request, reached.server.name(), reply).await
    }

    /// The tasks of the session's principal at the one server that it sees, on the server's own pages.
    pub(super) async fn list_tasks_of(
        &self,
        name: &str,
        mut request: Request<'_>,
    ) -> Result<RawJson, RpcError> {
        let reached = self.reach(request.client, name)?;
        let options = reached.options(request.client);
        let params = request.take_params();
        let reply = forward(&reached.server, &request, params, options).await;
        answer(&request, name, reply).await
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
            let own = &request.client.tasks;
            let has_any = own.are_all() || own.any_at(server.name());
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
            tasks.extend(shown(request, server.name(), &listed));
            if let Some(more) = more {
                next = Some(at_server(server.name(), &more));
                break;
            }
        }
        let mut result = Object::default();
        result.set("tasks", written(&tasks));
        if let Some(next) = next {
            result.set("nextCursor", text(&next));
        }
        if !unasked.is_empty() {
            result.set(
                "_meta",
                written(&json!({ "mainstay": { "unavailable": unasked } })),
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

/// A result of a server as the client is to see it; a task that was begun is noted as the client's.
pub(super) fn published(request: &Request<'_>, server: &str, result: RawJson) -> RawJson {
    match request.method {
        _any if request.client.tasks.have_their_own_ids() => result,
        "tools/call" if may_be_task(request, &result) => begun(request, server, result),
        "tasks/get" | "tasks/cancel" => {
            let asked = request.params.get("taskId");
            let named = asked.and_then(|asked| with_id(&result, asked.clone()));
            named.unwrap_or(result)
        }
        "tasks/result" => {
            let asked = string(&request.params, "taskId").ok();
            let relation = Relation::read(&result).ok().flatten().zip(asked);
            relation.map_or(result, |(relation, asked)| relation.renamed(&asked))
        }
        "tasks/list" => own_of(request, server, &result),
        _other => result,
    }
}

/// Whether a result may tell that a task was begun: a legacy client asks for it, a modern server begins one where it sees fit.
fn may_be_task(request: &Request<'_>, result: &RawJson) -> bool {
    // The search for the word is many times quicker than a look into a large message.
    let holds = |raw: &RawJson| raw.as_str().contains("\"task\"");
    let is_asked_for = || request.params.as_raw().is_some_and(holds) && request.params.get("task").is_some();
    holds(result) && (request.client.era == Era::Modern || is_asked_for())
}

/// The result of a call that may have begun a task.
fn begun(request: &Request<'_>, server: &str, result: RawJson) -> RawJson {
    let begun = || {
        let mut object = Object::parse(&result)?;
        if let Some(task) = object.get("task").cloned() {
            object.set("task", noted(request, server, &task)?);
            return Some(object.to_raw());
        }
        let kind: String = object.get("resultType")?.parse().ok()?;
        (kind == "task")
            .then(|| noted(request, server, &result))
            .flatten()
    };
    begun().unwrap_or(result)
}

/// A task that the client has begun, with the id by which it knows it.
fn noted(request: &Request<'_>, server: &str, task: &RawJson) -> Option<RawJson> {
    let client = request.client;
    let id: String = Object::parse(task)?.get("taskId")?.parse().ok()?;
    for early in client.tasks.note(server, &id) {
        client.hear(early);
    }
    with_id(task, text(&client.tasks.public_id(server, &id)))
}

/// A page of one server's tasks: those of the client alone.
fn own_of(request: &Request<'_>, server: &str, result: &RawJson) -> RawJson {
    let own = || {
        let mut page = Object::parse(result)?;
        let listed: Vec<RawJson> = page.get("tasks")?.parse().ok()?;
        page.set("tasks", written(&shown(request, server, &listed)));
        Some(page.to_raw())
    };
    // What cannot be read cannot be told apart, and is nobody's.
    own().unwrap_or_else(|| written(&json!({ "tasks": [] })))
}

/// Those of these tasks of a server that are the client's, as it knows them.
fn shown(request: &Request<'_>, server: &str, listed: &[RawJson]) -> Vec<RawJson> {
    let own = &request.client.tasks;
    let shown = listed.iter().filter_map(|task| {
        let id: String = Object::parse(task)?.get("taskId")?.parse().ok()?;
        let is_own = own.are_all() || own.has(server, &id);
        is_own
            .then(|| with_id(task, text(&own.public_id(server, &id))))
            .flatten()
    });
    shown.collect()
}

/// A task under another id, if it has one.
fn with_id(task: &RawJson, id: RawJson) -> Option<RawJson> {
    let mut task = Object::parse(task)?;
    task.get("taskId")?;
    task.set("taskId", id);
    Some(task.to_raw())
}

fn written(value: &impl Serialize) -> RawJson {
    RawJson::from_value(value).unwrap_or(RawJson::NULL)
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
    let params = cursor.map(|cursor| json!({ "cursor": cursor }));
    let params = params.and_then(|params| RawJson::from_value(&params).ok());
    let options = options.fail_fast().timeout(LISTING);
    let reply = server.forward("tasks/list", params, options).await.ok()?;
    let page = Object::parse(&reply.result)?;
    let next = page.get("nextCursor").and_then(|next| next.parse().ok());
    Some((page.get("tasks")?.parse().ok()?, next))
}
