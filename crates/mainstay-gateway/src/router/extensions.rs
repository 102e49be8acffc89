//! Extensions of the protocol that the gateway does not know.
//!
//! A method belongs to an extension by its first part, or by the whole name: `skills/list`, `notifications/skills/changed` and
//! `io.modelcontextprotocol/skills/list` belong to `io.modelcontextprotocol/skills`. At `/mcp/SERVER` everything passes as it is. In the union a request goes to the server that owns its
//! `uri`, or whose name begins its `name`, or that alone declares the extension; lists are joined, with the servers' names before the
//! names of their entries, as tools have them.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex};

use mainstay::Server;
use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{Object, Params, RawJson, RpcError};

use super::resolve::{Renaming, Upstream, string};
use super::tasks::{LIST_TIMEOUT, at_server, split_cursor};
use super::{RoutedRequest, Router, Subscribers};
use crate::client::Client;
use crate::failure;
use crate::lock::lock;
use crate::protocol::{invalid_params, method_not_found, raw, text, without_client};
use crate::scope::Scope;
use serde::de::IgnoredAny;

/// What stands between the name of a server and a name of its own.
const SEPARATOR: &str = "__";

/// Declarations that are remembered. Every modern request has one, and few clients differ in theirs.
const RECENT_DECLARATIONS_LIMIT: usize = 1024;

/// What clients declared since the servers last changed: it costs a look when it comes again.
#[derive(Default)]
pub(super) struct RecentDeclarations {
    hasher: RandomState,
    seen: Mutex<HashSet<u64>>,
}

impl RecentDeclarations {
    fn is_new(&self, scope: &Scope, declared: &RawJson) -> bool {
        let declaration = self.hasher.hash_one((scope, declared.as_str()));
        let mut seen = lock(&self.seen);
        if seen.len() >= RECENT_DECLARATIONS_LIMIT {
            seen.clear();
        }
        seen.insert(declaration)
    }

    pub(super) fn forget(&self) {
        lock(&self.seen).clear();
    }
}

/// A method without what says that it is a notification. What then has no `/` is of no extension.
fn plain(method: &str) -> &str {
    method.strip_prefix("notifications/").unwrap_or(method)
}

/// Whether a method is of this extension: whether it begins with the name, or with what follows the last `/` of the name.
fn is_of(method: &str, extension: &str) -> bool {
    let method = plain(method);
    let short = extension.rsplit('/').next().unwrap_or(extension);
    [extension, short].into_iter().any(|name| {
        let rest = method.strip_prefix(name).filter(|_| !name.is_empty());
        rest.is_some_and(|rest| rest.starts_with('/'))
    })
}

/// Whether these capabilities declare the extension of a method.
fn declares(capabilities: &RawJson, method: &str) -> bool {
    let declared = Object::find(capabilities, ["extensions"]).and_then(|[extensions]| extensions);
    let names = declared.and_then(|declared| declared.parse::<BTreeMap<String, IgnoredAny>>().ok());
    names.is_some_and(|names| names.keys().any(|name| is_of(method, name)))
}

impl Router {
    /// Tells the servers that a client sees which extensions it declares. Its own servers know it already.
    pub(super) fn declare_extensions(&self, client: &Client) {
        let Some([Some(declared)]) = Object::find(&client.declared(), ["extensions"]) else {
            return;
        };
        if !self.declarations.is_new(&client.scope, &declared) {
            return;
        }
        let servers = client.scope.servers(self.fleet()).into_iter();
        for server in servers.filter(|server| !self.isolated.holds(server.name())) {
            server.declare_extensions(&declared);
        }
    }

    /// The servers of this client that declare the extension of a method, by their names.
    pub(super) fn extended(&self, client: &Client, method: &str) -> Vec<Server> {
        let catalog = self.catalog(client);
        let mut servers = self.fleet().servers();
        servers.retain(|server| {
            let listed = catalog
                .server(server.name())
                .map(|listed| Arc::new(listed.about().clone()));
            let capabilities = listed
                .or_else(|| server.about())
                .and_then(|about| about.capabilities.clone());
            self.is_reachable(client, server.name())
                && capabilities.is_some_and(|capabilities| declares(&capabilities, method))
        });
        servers
    }

    /// Whether a request of the union is for a list that every server with the extension has a part of.
    pub(super) fn lists_extension(&self, request: &RoutedRequest<'_>) -> bool {
        request.client.scope == Scope::Union
            && request.method.ends_with("/list")
            && !self.extended(request.client, request.method).is_empty()
    }

    /// Finds the server of the union that a request of an extension is for.
    pub(super) fn address_extension(
        &self,
        request: &RoutedRequest<'_>,
    ) -> Result<(Upstream, Option<Renaming>), RpcError> {
        let (client, method) = (request.client, request.method);
        let servers = self.extended(client, method);
        let is_one = |name: &str| servers.iter().any(|server| server.name() == name);
        if let Ok(uri) = string(&request.params, "uri")
            && let Ok(owner) = self.owner(client, &uri)
            && is_one(&owner)
        {
            return Ok((self.upstream(client, &owner)?, None));
        }
        if let Ok(name) = string(&request.params, "name")
            && let Some((server, own)) = name.split_once(SEPARATOR)
            && is_one(server)
        {
            return Ok((self.upstream(client, server)?, Some(("name", text(own)))));
        }
        match servers.as_slice() {
            [] => Err(method_not_found(method)),
            [server] => Ok((self.upstream(client, server.name())?, None)),
            several => {
                let names: Vec<&str> = several.iter().map(Server::name).collect();
                Err(invalid_params(format!(
                    "{} have {method}, and nothing in the request says which one is meant: begin its `name` with the name of the server \
                     and {SEPARATOR}, or connect to /mcp/SERVER",
                    names.join(" and ")
                )))
            }
        }
    }

    /// The lists of an extension of all servers that declare it, in the order of the servers' names. A page ends where a server's page
    /// ends. `_meta` names each server that cannot be asked now.
    pub(super) async fn list_extension(&self, request: &RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let (from, mut cursor) = split_cursor(request.params.get("cursor"))?;
        let mut joined = JoinedList::default();
        let mut last_error = None;
        for server in self.extended(request.client, request.method) {
            if from.as_deref().is_some_and(|from| server.name() < from) {
                continue;
            }
            let of_this = from.as_deref() == Some(server.name());
            let cursor = cursor.take().filter(|_| of_this);
            match self.extension_page(request, server.name(), cursor).await {
                Ok(page) => {
                    if let Some(more) = joined.add(server.name(), &page) {
                        joined.next = Some(at_server(server.name(), &more));
                        break;
                    }
                }
                Err(error) => {
                    joined.unavailable.push(server.name().to_owned());
                    last_error = Some(error);
                }
            }
        }
        match last_error {
            Some(error) if !joined.has_parts => Err(error),
            Some(_) | None => Ok(joined.into_result()),
        }
    }

    async fn extension_page(
        &self,
        request: &RoutedRequest<'_>,
        server: &str,
        cursor: Option<String>,
    ) -> Result<RawJson, RpcError> {
        let upstream = self.upstream(request.client, server)?;
        let mut params = request
            .params
            .as_raw()
            .and_then(Object::parse)
            .unwrap_or_default();
        match cursor {
            Some(cursor) => params.set("cursor", text(&cursor)),
            None => drop(params.remove("cursor")),
        }
        let params = without_client(Params::new(Some(params.to_raw())));
        // What the server logs meanwhile is this session's, as with every call.
        let options = upstream.options(request.client).fail_fast().timeout(LIST_TIMEOUT);
        let answer = upstream.server.forward(request.method, params, options).await;
        let reply = answer.map_err(|error| failure::answer(&error, &self.advice))?;
        Ok(reply.result)
    }
}

/// The parts of several servers as one list.
#[derive(Default)]
struct JoinedList {
    lists: BTreeMap<String, Vec<RawJson>>,
    others: BTreeMap<String, RawJson>,
    next: Option<String>,
    unavailable: Vec<String>,
    has_parts: bool,
}

impl JoinedList {
    /// Adds a page of one server, and returns the cursor of the page after it.
    fn add(&mut self, server: &str, page: &RawJson) -> Option<String> {
        self.has_parts = true;
        let mut page = page.parse::<BTreeMap<String, RawJson>>().ok()?;
        let next = page.remove("nextCursor");
        for (name, value) in page {
            match value.parse::<Vec<RawJson>>() {
                Ok(entries) => {
                    let all = self.lists.entry(name).or_default();
                    all.extend(entries.into_iter().map(|entry| public(server, entry)));
                }
                // Of a member that is no list the first server's counts.
                Err(_) => drop(self.others.entry(name).or_insert(value)),
            }
        }
        next?.parse().ok()
    }

    fn into_result(self) -> RawJson {
        let mut result = Object::default();
        for (name, value) in self.others {
            result.set(&name, value);
        }
        for (name, entries) in self.lists {
            result.set(&name, raw(&entries));
        }
        if let Some(next) = self.next {
            result.set("nextCursor", text(&next));
        }
        if !self.unavailable.is_empty() {
            let meta = serde_json::json!({ "mainstay": { "unavailable": self.unavailable } });
            result.set("_meta", raw(&meta));
        }
        result.to_raw()
    }
}

/// An entry of a list with the name of its server before its own.
fn public(server: &str, entry: RawJson) -> RawJson {
    let Some(mut object) = Object::parse(&entry) else {
        return entry;
    };
    let Some(name) = object.get("name").and_then(|name| name.parse::<String>().ok()) else {
        return entry;
    };
    object.set("name", text(&format!("{server}{SEPARATOR}{name}")));
    object.to_raw()
}

impl Subscribers {
    /// The sessions that get a notification of an extension which belongs to no call. That a list has changed says nothing of any
    /// client: all that declare the extension get it. Anything else may be one client's own. The only client gets everything, as it
    /// would directly.
    pub(super) fn sessions_for_extension(&self, server: &str, method: &str) -> Vec<Arc<Client>> {
        if !plain(method).contains('/') {
            return Vec::new();
        }
        let mut sessions = self.sessions_of(server, usize::MAX);
        if sessions.len() <= 1 {
            return sessions;
        }
        if !method.ends_with("/list_changed") {
            return Vec::new();
        }
        sessions.retain(|session| declares(&session.declared(), method));
        sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_remembered_up_to_a_limit() {
        let recent = RecentDeclarations::default();
        let declared = |n: usize| RawJson::from_text(format!(r#"{{"x/{n}":{{}}}}"#)).unwrap();
        assert!(recent.is_new(&Scope::Union, &declared(0)));
        assert!(!recent.is_new(&Scope::Union, &declared(0)));
        assert!(recent.is_new(&Scope::Server("a".into()), &declared(0)));
        for n in 0..2 * RECENT_DECLARATIONS_LIMIT {
            recent.is_new(&Scope::Union, &declared(n));
        }
        assert!(lock(&recent.seen).len() <= RECENT_DECLARATIONS_LIMIT);
    }

    #[test]
    fn a_method_belongs_to_an_extension_by_its_first_part_or_the_whole_name() {
        let capabilities = RawJson::from_text(r#"{"extensions":{"io.x/skills":{},"ui":{},"":{}}}"#).unwrap();
        for (method, is_declared) in [
            ("skills/list", true),
            ("notifications/skills/list_changed", true),
            ("ui/open", true),
            ("io.x/skills/list", true),
            ("notifications/io.x/skills/list_changed", true),
            ("io.x/list", false),
            ("io.x/skills", false),
            ("io.x/skillset/list", false),
            ("skillset/list", false),
            ("/list", false),
            ("skills", false),
            ("notifications/skills", false),
        ] {
            assert_eq!(declares(&capabilities, method), is_declared, "{method}");
        }
    }
}
