//! Whose a request is: the server behind a public name or uri, and the request as that server knows it.

use mainstay::message::{Object, RawJson, RpcError};
use mainstay::{Catalog, Era, Kind, Offer, Server};

use super::reaching::Reached;
use super::unlisted::misspelt;
use super::{Desk, Request};
use crate::client::Client;
use crate::protocol::{RESOURCE_NOT_FOUND, invalid_params, text};
use crate::scope::Scope;

/// A request as its server knows it.
pub(super) struct Addressed {
    pub(super) reached: Reached,
    pub(super) params: Option<RawJson>,
}

impl Desk {
    /// Finds the server that a request is for.
    pub(super) fn address(&self, request: &Request<'_>) -> Result<Addressed, RpcError> {
        if let Scope::Server(name) = &request.client.scope {
            let reached = self.reach(request.client, name)?;
            let params = match request.method {
                "tools/call" => original_tool(&reached.server, request.params.clone()),
                _other => request.params.clone(),
            };
            return Ok(Addressed { reached, params });
        }
        let (server, params) = match named_in(&self.catalog(request.client), request) {
            Ok(named) => named,
            // What the client does not see may be there for those with a session, which is worth knowing.
            Err(unknown) => match named_in(&self.fleet().catalog(), request) {
                Ok((server, params)) if !self.is_reachable(request.client, &server) => (server, params),
                Ok(_) | Err(_) => self.unlisted(request).ok_or(unknown)?,
            },
        };
        Ok(Addressed {
            reached: self.reach(request.client, &server)?,
            params: Some(params),
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

/// The server that a request to all of them names in this catalog, and its parameters as that server knows them.
fn named_in(catalog: &Catalog, request: &Request<'_>) -> Result<(String, RawJson), RpcError> {
    let mut params = request
        .params
        .as_ref()
        .and_then(Object::parse)
        .ok_or_else(|| invalid_params(format!("{} needs parameters", request.method)))?;
    let (server, original) = match request.method {
        "tools/call" => {
            let name = string(&params, "name")?;
            let tool = catalog.tool(&name);
            let tool =
                tool.ok_or_else(|| misspelt("tool", &name, catalog.tools().iter().map(Offer::name)))?;
            (tool.server().to_owned(), Some(tool.original().to_owned()))
        }
        "prompts/get" => {
            let name = string(&params, "name")?;
            let prompt = catalog.prompt(&name);
            let known = || catalog.prompts().iter().map(Offer::name);
            let prompt = prompt.ok_or_else(|| misspelt("prompt", &name, known()))?;
            (prompt.server().to_owned(), Some(prompt.original().to_owned()))
        }
        "completion/complete" => {
            let (server, reference) = reference(catalog, &params)?;
            if let Some(reference) = reference {
                params.set("ref", reference);
            }
            (server, None)
        }
        _of_a_resource => (
            owner(catalog, &string(&params, "uri")?, request.client.era)?,
            None,
        ),
    };
    if let Some(original) = original {
        params.set("name", text(&original));
    }
    Ok((server, params.to_raw()))
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
fn reference(catalog: &Catalog, params: &Object) -> Result<(String, Option<RawJson>), RpcError> {
    let mut reference = params
        .get("ref")
        .and_then(Object::parse)
        .ok_or_else(|| invalid_params("completion/complete needs a ref"))?;
    if let Ok(uri) = string(&reference, "uri") {
        let template = catalog
            .template(&uri)
            .ok_or_else(|| unknown("resource template", &uri))?;
        return Ok((template.server().to_owned(), None));
    }
    let name = string(&reference, "name")?;
    let prompt = catalog.prompt(&name).ok_or_else(|| unknown("prompt", &name))?;
    reference.set("name", text(prompt.original()));
    Ok((prompt.server().to_owned(), Some(reference.to_raw())))
}

/// A call under the name that the server gave its tool, where the view has another for it.
fn original_tool(server: &Server, params: Option<RawJson>) -> Option<RawJson> {
    let view = server.view();
    if !view.renames() {
        return params;
    }
    let Some(mut object) = params.as_ref().and_then(Object::parse) else {
        return params;
    };
    let Ok(name) = string(&object, "name") else {
        return params;
    };
    let original = view.original_name(&name);
    if original == name {
        return params;
    }
    object.set("name", text(original));
    Some(object.to_raw())
}

pub(super) fn string(object: &Object, field: &str) -> Result<String, RpcError> {
    let value = object.get(field).and_then(|value| value.parse().ok());
    value.ok_or_else(|| invalid_params(format!("`{field}` is missing, or is no text")))
}

pub(super) fn unknown(what: &str, name: &str) -> RpcError {
    invalid_params(format!("there is no {what} {name}"))
}
