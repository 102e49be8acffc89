//! Whose a request is: the server behind a public name or uri, and the request as that server knows it.

use mainstay::catalog::{Kind, Offer};
use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{Object, Params, RawJson, RpcError};
use mainstay::{Catalog, Era, Server};

use super::reaching::Reached;
use super::unlisted::misspelt;
use super::{Request, Router};
use crate::client::Client;
use crate::protocol::{RESOURCE_NOT_FOUND, invalid_params, text};
use crate::scope::Scope;

/// A request as its server knows it.
pub(super) struct Addressed {
    pub(super) reached: Reached,
    pub(super) params: Params,
}

/// Whose a request is.
pub(super) struct Named {
    pub(super) server: String,
    /// The member of the parameters that the server knows otherwise, and how it knows it.
    pub(super) renaming: Option<(&'static str, RawJson)>,
}

impl Router {
    /// Finds the server that a request is for, and takes its parameters as that server knows them.
    pub(super) fn address(&self, request: &mut Request<'_>) -> Result<Addressed, RpcError> {
        let (reached, renaming) = match &request.client.scope {
            Scope::Server(name) => {
                let reached = self.reach(request.client, name)?;
                let renaming = match request.method {
                    "tools/call" => original_tool(&reached.server, &request.params),
                    _other => None,
                };
                (reached, renaming)
            }
            Scope::Union => {
                let named = self.named(request)?;
                (self.reach(request.client, &named.server)?, named.renaming)
            }
        };
        let mut params = request.take_params();
        if let Some((member, value)) = renaming {
            params.set(member, value);
        }
        Ok(Addressed { reached, params })
    }

    /// The server that a request to all of them names.
    fn named(&self, request: &Request<'_>) -> Result<Named, RpcError> {
        named_in(&self.catalog(request.client), request).or_else(|unknown| {
            // What the client does not see may be there for those with a session, which is worth knowing.
            match named_in(&self.fleet().catalog(), request) {
                Ok(named) if !self.is_reachable(request.client, &named.server) => Ok(named),
                Ok(_) | Err(_) => self.unlisted(request).ok_or(unknown),
            }
        })
    }

    /// The arguments of a call that its tool wants to be seen in headers, with their names there.
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

/// The server that a request to all of them names in this catalog.
fn named_in(catalog: &Catalog, request: &Request<'_>) -> Result<Named, RpcError> {
    let params = &request.params;
    if !params.is_object() {
        return Err(invalid_params(format!("{} needs parameters", request.method)));
    }
    let (server, renaming) = match request.method {
        "tools/call" => {
            let name = string(params, "name")?;
            let tool = catalog.tool(&name);
            let tool =
                tool.ok_or_else(|| misspelt("tool", &name, catalog.tools().iter().map(Offer::name)))?;
            (tool.server().to_owned(), Some(("name", text(tool.original()))))
        }
        "prompts/get" => {
            let name = string(params, "name")?;
            let prompt = catalog.prompt(&name);
            let known = || catalog.prompts().iter().map(Offer::name);
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
    Ok(Named { server, renaming })
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

/// A call under the name that the server gave its tool, where the view has another for it.
fn original_tool(server: &Server, params: &Params) -> Option<(&'static str, RawJson)> {
    let view = server.view();
    if !view.renames() {
        return None;
    }
    let name = string(params, "name").ok()?;
    let original = view.original_name(&name);
    (original != name).then(|| ("name", text(original)))
}

/// A member of the parameters that must be a text.
pub(super) fn string(params: &Params, field: &str) -> Result<String, RpcError> {
    string_of(params.get(field), field)
}

fn string_of(value: Option<&RawJson>, field: &str) -> Result<String, RpcError> {
    let value = value.and_then(|value| value.parse().ok());
    value.ok_or_else(|| invalid_params(format!("`{field}` is missing, or is no text")))
}

pub(super) fn unknown(what: &str, name: &str) -> RpcError {
    invalid_params(format!("there is no {what} {name}"))
}
