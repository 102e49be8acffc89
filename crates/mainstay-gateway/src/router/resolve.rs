//! Finds the server that a request is for, and rewrites the request to the names that the server knows.
//!
//! [`Router::upstream`] is the one place where a name becomes a server: the one that all clients share, or the client's own.

use std::sync::Arc;

use mainstay::catalog::{Kind, Offer};
use mainstay::config::nearest;
use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{Object, Params, RawJson, RpcError};
use mainstay::lifecycle::Desired;
use mainstay::{CallOptions, Catalog, Era, Server};

use super::tasks::TaskReply;
use super::{RoutedRequest, Router};
use crate::client::Client;
use crate::isolation::IsolationError;
use crate::protocol::{RESOURCE_NOT_FOUND, invalid_params, text};
use crate::scope::Scope;

/// A server as one client has it.
pub(super) struct Upstream {
    pub(super) server: Server,
    /// Whether it is this client's own, and no other client's.
    pub(super) is_own: bool,
}

/// A request as its server knows it.
pub(super) struct ForwardedRequest {
    pub(super) upstream: Upstream,
    pub(super) params: Params,
    pub(super) task_reply: TaskReply,
}

/// The server that a request names.
struct Destination {
    server: String,
    renaming: Option<Renaming>,
}

/// A member of the parameters that the server knows by another value.
pub(super) type Renaming = (&'static str, RawJson);

impl Router {
    /// The server of this name, as this client has it. The client's own server is started if it does not run yet.
    pub(super) fn upstream(&self, client: &Client, name: &str) -> Result<Upstream, RpcError> {
        let server = self.fleet().server(name);
        let server = server.ok_or_else(|| invalid_params(format!("there is no server {name}")))?;
        let shared = |server| Upstream {
            server,
            is_own: false,
        };
        if !self.isolated.holds(name) {
            return Ok(shared(server));
        }
        // To disable the template server means to disable all of them, and its status says so.
        if server.status().desired == Desired::Disabled {
            if let Some(own) = client.own() {
                own.close_one(name);
            }
            return Ok(shared(server));
        }
        let no_session = || IsolationError::NoSession {
            server: name.to_owned(),
        };
        let own = client.own().ok_or_else(no_session)?;
        Ok(Upstream {
            server: own.server(name, &self.fleet().catalog(), client)?,
            is_own: true,
        })
    }

    /// The server of this name, as this client has it, if that runs. None is started.
    pub(super) fn running(&self, client: &Client, name: &str) -> Option<Server> {
        if self.isolated.holds(name) {
            client.own()?.running(name)
        } else {
            self.fleet().server(name)
        }
    }

    /// Refuses a client without a session where every server needs one.
    pub(super) fn check_session(&self, client: &Client) -> Result<(), RpcError> {
        if client.own().is_some() || self.isolated.is_empty() {
            return Ok(());
        }
        let servers = client.scope.servers(self.fleet());
        let only_sessions =
            !servers.is_empty() && servers.iter().all(|server| self.isolated.holds(server.name()));
        if only_sessions {
            return Err(IsolationError::OnlySessions.into());
        }
        Ok(())
    }

    /// Whether this client can reach a server of this name.
    pub(super) fn is_reachable(&self, client: &Client, name: &str) -> bool {
        client.own().is_some() || !self.isolated.holds(name)
    }

    /// Finds the server that a request is for, and takes the parameters as that server knows them.
    pub(super) fn address(&self, request: &mut RoutedRequest<'_>) -> Result<ForwardedRequest, RpcError> {
        let (upstream, renaming) = match request.method {
            "tools/call" | "prompts/get" | "resources/read" | "completion/complete" => {
                self.address_named(request)?
            }
            "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update" => self.address_task(request)?,
            // Whatever a server does with a task, it does it for the principal that began the task.
            other if names_signed_task(other, request) => self.address_task(request)?,
            _unknown_to_the_gateway => match &request.client.scope {
                Scope::Server(name) => (self.upstream(request.client, name)?, None),
                Scope::Union => self.address_extension(request)?,
            },
        };
        let task_reply = TaskReply::to(request);
        let mut params = std::mem::take(&mut request.params);
        if let Some((member, value)) = renaming {
            params.set(member, value);
        }
        Ok(ForwardedRequest {
            upstream,
            params,
            task_reply,
        })
    }

    fn address_named(&self, request: &RoutedRequest<'_>) -> Result<(Upstream, Option<Renaming>), RpcError> {
        match &request.client.scope {
            Scope::Server(name) => {
                let upstream = self.upstream(request.client, name)?;
                let renaming = match request.method {
                    "tools/call" => original_tool(&upstream.server, &request.params),
                    _other => None,
                };
                Ok((upstream, renaming))
            }
            Scope::Union => {
                let Destination { server, renaming } = self.destination(request)?;
                Ok((self.upstream(request.client, &server)?, renaming))
            }
        }
    }

    fn address_task(&self, request: &RoutedRequest<'_>) -> Result<(Upstream, Option<Renaming>), RpcError> {
        let id = string(&request.params, "taskId")?;
        let none = || unknown("task", &id);
        let own = &request.client.tasks;
        let (server, given) = own.known(&id).ok_or_else(none)?;
        self.fleet().server(&server).ok_or_else(none)?;
        let upstream = self.upstream(request.client, &server)?;
        if !own.are_all() {
            // Only its principal could show this id, so what the server asks for the task is for this client.
            own.note(&server, &given);
        }
        let renaming = (given != id).then(|| ("taskId", text(&given)));
        Ok((upstream, renaming))
    }

    /// The server that a request to the union names.
    fn destination(&self, request: &RoutedRequest<'_>) -> Result<Destination, RpcError> {
        destination_in(&self.catalog(request.client), request).or_else(|unknown| {
            // The client may name something that only clients with a session can use: then say that.
            match destination_in(&self.fleet().catalog(), request) {
                Ok(named) if !self.is_reachable(request.client, &named.server) => Ok(named),
                Ok(_) | Err(_) => self.unpublished(request).ok_or(unknown),
            }
        })
    }

    /// The server that a public name must be of, where nothing of that server is published: it was never listed, is disabled or
    /// has failed. If the server is connected, it decides itself whether it has this name. Otherwise the call waits for it, or
    /// fails and says how the server is.
    fn unpublished(&self, request: &RoutedRequest<'_>) -> Option<Destination> {
        if !matches!(request.method, "tools/call" | "prompts/get") {
            return None;
        }
        let name = string(&request.params, "name").ok()?;
        let (server, rest) = name.split_once("__")?;
        let handle = self.fleet().server(server)?;
        if self.catalog(request.client).server(server).is_some() {
            return None;
        }
        Some(Destination {
            server: server.to_owned(),
            renaming: Some(("name", text(handle.view().original_name(rest)))),
        })
    }

    /// The arguments of a call that its tool wants mirrored in headers, with the names of the headers.
    pub(crate) fn mirrored(&self, scope: &Scope, tool: &str, arguments: &RawJson) -> Vec<(String, RawJson)> {
        let catalog = self.fleet().catalog();
        let (server, original) = match scope {
            Scope::Union => match catalog.tool(tool) {
                Some(tool) => (tool.server().to_owned(), tool.original().to_owned()),
                None => return Vec::new(),
            },
            Scope::Server(name) => match self.fleet().server(name) {
                Some(server) => (name.to_string(), server.view().original_name(tool).to_owned()),
                None => return Vec::new(),
            },
        };
        let listed = catalog.server(&server);
        let tool = listed.and_then(|listed| listed.item(Kind::Tool, &original));
        tool.map_or_else(Vec::new, |tool| tool.mirrored(arguments))
    }

    /// The server that a resource belongs to, as this client sees it.
    pub(super) fn owner(&self, client: &Client, uri: &str) -> Result<String, RpcError> {
        owner(&self.catalog(client), uri, client.era)
    }
}

impl Upstream {
    /// How a session calls it. The session answers what a shared server asks meanwhile; with its own server there is no other
    /// client whom a question could be for.
    pub(super) fn options(&self, session: &Arc<Client>) -> CallOptions {
        let options = CallOptions::default();
        if self.is_own {
            options
        } else {
            options.handler(session.clone())
        }
    }
}

/// Whether a request of a method that the gateway does not know is for a task whose id the gateway gave.
fn names_signed_task(method: &str, request: &RoutedRequest<'_>) -> bool {
    let has_id = || request.params.get("taskId").is_some();
    method.starts_with("tasks/") && !request.client.tasks.have_server_ids() && has_id()
}

/// The server that a request to the union names in this catalog.
fn destination_in(catalog: &Catalog, request: &RoutedRequest<'_>) -> Result<Destination, RpcError> {
    let params = &request.params;
    if !params.is_object() {
        return Err(invalid_params(format!("{} needs parameters", request.method)));
    }
    let (server, renaming) = match request.method {
        "tools/call" => {
            let name = string(params, "name")?;
            let known = || catalog.tools().iter().map(Offer::name);
            let tool = catalog.tool(&name);
            let tool = tool.ok_or_else(|| misspelt("tool", &name, known()))?;
            (tool.server().to_owned(), Some(("name", text(tool.original()))))
        }
        "prompts/get" => {
            let name = string(params, "name")?;
            let known = || catalog.prompts().iter().map(Offer::name);
            let prompt = catalog.prompt(&name);
            let prompt = prompt.ok_or_else(|| misspelt("prompt", &name, known()))?;
            (
                prompt.server().to_owned(),
                Some(("name", text(prompt.original()))),
            )
        }
        "completion/complete" => {
            let (server, reference) = reference(catalog, params)?;
            (server, reference.map(|reference| ("ref", reference)))
        }
        _of_a_resource => (owner(catalog, &string(params, "uri")?, request.client.era)?, None),
    };
    Ok(Destination { server, renaming })
}

/// The server that a resource belongs to.
fn owner(catalog: &Catalog, uri: &str, era: Era) -> Result<String, RpcError> {
    if let Some(server) = catalog.owner(uri) {
        return Ok(server.to_owned());
    }
    let code = match era {
        Era::Legacy => RESOURCE_NOT_FOUND,
        Era::Modern => RpcError::INVALID_PARAMS,
    };
    Err(RpcError::new(code, format!("no server has a resource {uri}")))
}

/// The server that a completion is for, and the reference as that server knows it where it differs.
fn reference(catalog: &Catalog, params: &Params) -> Result<(String, Option<RawJson>), RpcError> {
    let mut reference = params
        .get("ref")
        .and_then(Object::parse)
        .ok_or_else(|| invalid_params("completion/complete needs a ref"))?;
    if let Ok(uri) = string_of(reference.get("uri"), "uri") {
        let template = catalog
            .template(&uri)
            .ok_or_else(|| unknown("resource template", &uri))?;
        return Ok((template.server().to_owned(), None));
    }
    let name = string_of(reference.get("name"), "name")?;
    let prompt = catalog.prompt(&name).ok_or_else(|| unknown("prompt", &name))?;
    reference.set("name", text(prompt.original()));
    Ok((prompt.server().to_owned(), Some(reference.to_raw())))
}

/// The name that the server gave its tool, where the configuration gives it another.
fn original_tool(server: &Server, params: &Params) -> Option<Renaming> {
    let view = server.view();
    if !view.renames() {
        return None;
    }
    let name = string(params, "name").ok()?;
    let original = view.original_name(&name);
    (original != name).then(|| ("name", text(original)))
}

/// A member of the parameters that must be a string.
pub(super) fn string(params: &Params, field: &str) -> Result<String, RpcError> {
    string_of(params.get(field), field)
}

fn string_of(value: Option<&RawJson>, field: &str) -> Result<String, RpcError> {
    let value = value.and_then(|value| value.parse().ok());
    value.ok_or_else(|| invalid_params(format!("`{field}` is missing, or is no text")))
}

/// The answer to a client whose server was removed from the configuration.
pub(super) fn removed(server: &str) -> RpcError {
    invalid_params(format!("there is no server {server} any more"))
}

pub(super) fn unknown(what: &str, name: &str) -> RpcError {
    invalid_params(format!("there is no {what} {name}"))
}

/// The answer to an unknown name, with the known name that is nearest to it.
fn misspelt<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> RpcError {
    let meant = nearest(name, known).map(|near| format!("; did you mean {near}?"));
    invalid_params(format!("there is no {what} {name}{}", meant.unwrap_or_default()))
}
