//! Tasks: work that goes on at a server when its call has been answered.
//!
//! A task belongs to the principal that began it. The gateway signs the id that a client gets for that principal (`ids`). So it finds
//! the server of a task, and refuses every other client, without remembering anything. It still remembers the latest tasks of each
//! principal: a shared server lists the tasks of all clients, sends notifications of them, and may give an id again.

mod ids;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{self, Object, RawJson, RpcError};
use mainstay::{CallOptions, Era, Server};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::resolve::{Upstream, string};
use super::subscribers::Subscriber;
use super::subscriptions::Topic;
use super::{RoutedRequest, Router};
use crate::client::Client;
use crate::protocol::{invalid_params, missing_extension, raw, text};
pub(super) use ids::RELATED;
pub(super) use ids::at_server;
pub(crate) use ids::{ClientTasks, OwnTasks};
use ids::{RelatedMessage, split_server};

/// The extension by which modern servers offer tasks.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Tasks that one listen may follow: the gateway asks for one after the other.
pub(super) const FOLLOWED_LIMIT: usize = 256;

/// Tasks that a server may list on one page. Servers list some hundred.
const PAGE_LIMIT: usize = 10_000;

/// How long one server may take to list its tasks.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the acknowledgement of a listen waits until the servers agree to send notifications of its tasks. The client has to poll
/// the tasks whose servers have not agreed by then.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(3);

impl Router {
    /// The session's own tasks at all servers that list theirs, in the order of the servers' names. A page ends where a
    /// server's page ends. `_meta` names each server that cannot be asked now.
    pub(super) async fn list_tasks(&self, request: &RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let (from, mut cursor) = split_cursor(request.params.get("cursor"))?;
        let mut tasks = Vec::new();
        let mut unavailable = Vec::new();
        let mut next = None;
        for server in self.fleet().servers() {
            let is_before = from.as_deref().is_some_and(|from| server.name() < from);
            let own = &request.client.tasks;
            let has_any = own.are_all() || own.any_at(server.name());
            if is_before || !has_any || !self.lists_tasks(&server) {
                continue;
            }
            let Ok(upstream) = self.upstream(request.client, server.name()) else {
                unavailable.push(server.name().to_owned());
                continue;
            };
            let of_this = from.as_deref() == Some(server.name());
            // What the server logs meanwhile is this session's, as with every call.
            let options = upstream.options(request.client);
            let cursor = cursor.take().filter(|_| of_this);
            let page = page(request.client, &upstream.server, cursor, options).await;
            let Some((own, more)) = page else {
                unavailable.push(server.name().to_owned());
                continue;
            };
            tasks.extend(own);
            if let Some(more) = more {
                next = Some(at_server(server.name(), &more));
                break;
            }
        }
        let mut result = Object::default();
        result.set("tasks", raw(&tasks));
        if let Some(next) = next {
            result.set("nextCursor", text(&next));
        }
        if !unavailable.is_empty() {
            let meta = json!({ "mainstay": { "unavailable": unavailable } });
            result.set("_meta", raw(&meta));
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

    /// Follows these tasks from now on, and returns those whose servers agreed to send notifications.
    pub(super) async fn follow(
        &self,
        request: &RoutedRequest<'_>,
        subscriber: &Subscriber,
        ids: &BTreeSet<String>,
    ) -> Result<Vec<String>, RpcError> {
        if !ids.is_empty() && !request.meta.declares_extension(EXTENSION) {
            return Err(missing_extension(EXTENSION));
        }
        let deadline = Instant::now() + AGREEMENT_TIMEOUT;
        let mut agreed = Vec::new();
        for id in ids {
            let Some((topic, upstream)) = self.task(request, id) else {
                continue;
            };
            // Before the server is asked: it may send a notification right after it has agreed.
            let expected = subscriber.expect(&topic, &upstream)?;
            let begun = self
                .subscriptions
                .begin(request.client, upstream, &topic, &self.advice);
            if let Ok(Ok(subscription)) = timeout_at(deadline, begun).await {
                expected.keep(subscription);
                agreed.push(id.clone());
            }
        }
        Ok(agreed)
    }

    /// A task that the client knows by this id, and the server that has it.
    fn task(&self, request: &RoutedRequest<'_>, id: &str) -> Option<(Topic, Upstream)> {
        let (server, id) = request.client.tasks.known(id)?;
        let upstream = self.upstream(request.client, &server).ok()?;
        Some((Topic::Task { server, id }, upstream))
    }
}

/// What the result of a request may say of tasks. Read from the request before the server gets it.
#[derive(Clone, Debug)]
pub(super) enum TaskReply {
    /// Nothing that the client knows by another id.
    Nothing,
    /// That a task was begun.
    MayBegin,
    /// How the task is that the client knows by this id.
    Status(RawJson),
    /// The result of the task that the client knows by this id.
    Result(String),
    /// The tasks of the server, those of other clients included.
    List,
}

impl TaskReply {
    /// What the result of this request may say.
    pub(super) fn to(request: &RoutedRequest<'_>) -> Self {
        let params = &request.params;
        match request.method {
            _any if request.client.tasks.have_server_ids() => Self::Nothing,
            // A legacy client asks for a task, a modern server begins one where it sees fit.
            "tools/call" if request.client.era == Era::Modern || params.get("task").is_some() => {
                Self::MayBegin
            }
            "tasks/result" => string(params, "taskId").map_or(Self::Nothing, Self::Result),
            "tasks/list" => Self::List,
            of_task if of_task.starts_with("tasks/") => match params.get("taskId") {
                Some(id) => Self::Status(id.clone()),
                None => Self::Nothing,
            },
            _other => Self::Nothing,
        }
    }

    /// The result of a server as the client is to see it. A task that was begun is noted as the client's.
    pub(super) fn rewrite(self, client: &Client, server: &str, result: RawJson) -> RawJson {
        match self {
            Self::Nothing => result,
            Self::MayBegin => begun(client, server, &result).unwrap_or(result),
            Self::Status(id) => with_id(&result, id).unwrap_or(result),
            Self::Result(id) => match RelatedMessage::read(&result) {
                Some(related) => related.renamed(&id),
                None => result,
            },
            Self::List => {
                // The gateway cannot tell whose the tasks are in a list that it cannot read.
                own_page(client, server, &result).unwrap_or_else(|| raw(&json!({ "tasks": [] })))
            }
        }
    }
}

/// The result of a call that has begun a task.
fn begun(client: &Client, server: &str, result: &RawJson) -> Option<RawJson> {
    // Most results do not hold the word, and need not be parsed.
    if !result.as_str().contains("\"task\"") {
        return None;
    }
    let mut object = Object::parse(result)?;
    if let Some(task) = object.get("task").cloned() {
        object.set("task", noted(client, server, &task)?);
        return Some(object.to_raw());
    }
    let kind: String = object.get("resultType")?.parse().ok()?;
    (kind == "task").then(|| noted(client, server, result)).flatten()
}

/// A task that the client has begun, with the id by which it knows it.
fn noted(client: &Client, server: &str, task: &RawJson) -> Option<RawJson> {
    let id: String = Object::parse(task)?.get("taskId")?.parse().ok()?;
    for early in client.tasks.began(server, &id, client.number()) {
        client.notify(early);
    }
    with_id(task, text(&client.tasks.public_id(server, &id)))
}

/// A page of one server's tasks with those of the client alone.
fn own_page(client: &Client, server: &str, result: &RawJson) -> Option<RawJson> {
    let mut page = Object::parse(result)?;
    let ListedTasks(listed) = page.get("tasks")?.parse().ok()?;
    page.set("tasks", raw(&own_tasks_in(client, server, &listed)));
    Some(page.to_raw())
}

/// Those of these tasks of a server that are the client's, as it knows them.
fn own_tasks_in(client: &Client, server: &str, listed: &[RawJson]) -> Vec<RawJson> {
    let own = &client.tasks;
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

/// The server that a cursor is of, and that server's own cursor.
pub(super) fn split_cursor(cursor: Option<&RawJson>) -> Result<(Option<String>, Option<String>), RpcError> {
    let Some(cursor) = cursor.filter(|cursor| **cursor != RawJson::NULL) else {
        return Ok((None, None));
    };
    let cursor: Option<String> = cursor.parse().ok();
    let (server, own) = cursor
        .as_deref()
        .and_then(split_server)
        .ok_or_else(|| invalid_params("the cursor is not one of this gateway: list again"))?;
    Ok((Some(server), Some(own.to_owned())))
}

/// The client's own tasks on one page of a server's tasks, and the cursor of the next; `None` when the server does not answer with a
/// page that can be read in time.
async fn page(
    client: &Arc<Client>,
    server: &Server,
    cursor: Option<String>,
    options: CallOptions,
) -> Option<(Vec<RawJson>, Option<String>)> {
    let params = cursor.map(|cursor| raw(&json!({ "cursor": cursor })));
    let options = options.fail_fast().timeout(LIST_TIMEOUT);
    let reply = server.forward("tasks/list", params, options).await.ok()?;
    let length = reply.result.as_bytes().len();
    let (client, name) = (client.clone(), server.name().to_owned());
    let read = move || {
        let [tasks, next] = Object::find(&reply.result, ["tasks", "nextCursor"])?;
        let ListedTasks(listed) = tasks?.parse().ok()?;
        let own = own_tasks_in(&client, &name, &listed);
        Some((own, next.and_then(|next| next.parse().ok())))
    };
    message::process_payload(length, read).await
}

/// The tasks on one page of a server. A longer page is not read: each task on it takes many times its bytes.
struct ListedTasks(Vec<RawJson>);

impl<'de> Deserialize<'de> for ListedTasks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(TasksVisitor)
    }
}

struct TasksVisitor;

impl<'de> Visitor<'de> for TasksVisitor {
    type Value = ListedTasks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {PAGE_LIMIT} tasks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut tasks = Vec::new();
        while let Some(task) = items.next_element()? {
            if tasks.len() >= PAGE_LIMIT {
                return Err(A::Error::invalid_length(tasks.len() + 1, &self));
            }
            tasks.push(task);
        }
        Ok(ListedTasks(tasks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_too_many_tasks_is_not_read() {
        let page = |tasks: usize| RawJson::from_text(format!("[{}]", vec!["{}"; tasks].join(",")));
        let read = |tasks| page(tasks).unwrap().parse::<ListedTasks>();
        assert_eq!(read(PAGE_LIMIT).unwrap().0.len(), PAGE_LIMIT);
        assert!(read(PAGE_LIMIT + 1).is_err());
    }
}
