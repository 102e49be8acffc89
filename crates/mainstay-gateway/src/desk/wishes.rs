//! What clients want for longer than one request: resources to be told of, and how much is logged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay::Server;
use mainstay::message::{self, Object, RawJson, RpcError};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::audience::{Filter, labelled};
use super::naming::string;
use super::{Desk, Level, Request};
use crate::client::Client;
use crate::failure;
use crate::isolation::OwnServers;
use crate::protocol::{invalid_params, text};
use crate::scope::Scope;

/// Resources that one listen may subscribe to.
const MAX_URIS: usize = 10_000;

/// How long all servers may take to be told of a level. Those that take longer keep the wish for their next connection.
const TELL_ALL: Duration = Duration::from_secs(2);

/// How many clients subscribe to each resource: the server is told of the first and of the last.
#[derive(Default)]
pub(super) struct Subscriptions(Arc<Mutex<BTreeMap<(String, String), usize>>>);

impl Desk {
    pub(super) async fn subscribe(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        let server = self.server_of(request, &uri)?;
        let Some(hearing) = request.client.hearing() else {
            return Err(invalid_params("there is no session that could be told"));
        };
        if hearing.set_uri(&uri, true)
            && let Err(error) = self.begin_subscription(request.client, &server, &uri).await
        {
            hearing.set_uri(&uri, false);
            return Err(error);
        }
        Ok(RawJson::EMPTY_OBJECT)
    }

    pub(super) async fn unsubscribe(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        let server = self.server_of(request, &uri)?;
        let left = request
            .client
            .hearing()
            .is_some_and(|hearing| hearing.set_uri(&uri, false));
        if left {
            self.end_subscription(request.client, &server, &uri).await;
        }
        Ok(RawJson::EMPTY_OBJECT)
    }

    pub(super) async fn set_level(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let params = request
            .params
            .as_ref()
            .and_then(Object::parse)
            .unwrap_or_default();
        let word = string(&params, "level")?;
        let level =
            Level::from_word(&word).ok_or_else(|| invalid_params(format!("there is no level {word}")))?;
        request.client.set_level(level);
        let mut telling = JoinSet::new();
        for server in self.loggers(request.client, &word) {
            let word = word.clone();
            // One that cannot be told now is told when it is back; one that knows no levels logs as it likes.
            telling.spawn(async move { server.set_log_level(&word).await });
        }
        // All at once, and no longer than this: the slowest of them is no concern of a client's.
        let told = async { while telling.join_next().await.is_some() {} };
        let _ = timeout(TELL_ALL, told).await;
        Ok(RawJson::EMPTY_OBJECT)
    }

    /// Tells a modern client what it asked for, until it goes away.
    pub(super) async fn listen(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let filter = filter(request.params.as_ref())?;
        let (line, id) = (request.line.clone(), request.id.clone());
        let scope = request.client.scope.clone();
        let honoured = honoured(&filter, &id);
        let uris: Vec<String> = filter.uris.iter().cloned().collect();
        line.send(message::notification(
            "notifications/subscriptions/acknowledged",
            Some(&honoured),
        ));
        let _hearing = self
            .audience
            .seat_listen(scope, line, id, filter, request.client.own().cloned());
        let mut kept = Kept {
            desk: self,
            client: request.client,
            subscriptions: Vec::new(),
        };
        for uri in uris {
            let Ok(server) = self.server_of(request, &uri) else {
                continue;
            };
            if self
                .begin_subscription(request.client, &server, &uri)
                .await
                .is_ok()
            {
                kept.subscriptions.push((server, uri));
            }
        }
        // Until the client goes away, which drops this.
        std::future::pending::<()>().await;
        Ok(RawJson::EMPTY_OBJECT)
    }

    fn server_of(&self, request: &Request<'_>, uri: &str) -> Result<String, RpcError> {
        match &request.client.scope {
            Scope::Union => self.owner(request.client, uri),
            Scope::Server(name) => Ok(name.to_string()),
        }
    }

    /// The servers that are told how much a client wants logged.
    fn loggers(&self, client: &Client, level: &str) -> Vec<Server> {
        let mut servers = client.scope.servers(self.fleet());
        servers.retain(|server| !self.isolated.holds(server.name()));
        if let Some(own) = client.own() {
            servers.extend(own.set_log_level(&client.scope, level));
        }
        servers
    }

    /// The servers of a client's own, where this is one of them.
    fn own_for<'a>(&self, client: &'a Client, server: &str) -> Option<&'a Arc<OwnServers>> {
        client.own().filter(|_| self.isolated.holds(server))
    }

    async fn begin_subscription(&self, client: &Client, server: &str, uri: &str) -> Result<(), RpcError> {
        if let Some(own) = self.own_for(client, server) {
            return own.subscribe(server, &self.fleet().catalog(), uri).await;
        }
        if !self.subscriptions.add(server, uri) {
            return Ok(());
        }
        let Some(handle) = self.fleet().server(server) else {
            return Ok(());
        };
        let begun = handle.subscribe(uri).await;
        if begun.is_err() {
            self.subscriptions.remove(server, uri);
        }
        begun.map_err(|error| failure::answer(&error))
    }

    async fn end_subscription(&self, client: &Client, server: &str, uri: &str) {
        if let Some(own) = self.own_for(client, server) {
            return own.unsubscribe(server, uri.to_owned());
        }
        if self.subscriptions.remove(server, uri)
            && let Some(handle) = self.fleet().server(server)
        {
            // The gateway tells nobody any more, whatever the server does.
            let _ = handle.unsubscribe(uri).await;
        }
    }

    /// Ends what a client that went away had subscribed to. Nobody waits for it.
    pub(crate) fn end_subscriptions(&self, client: &Client, uris: impl IntoIterator<Item = String>) {
        for uri in uris {
            let server = match &client.scope {
                Scope::Union => self.owner(client, &uri).ok(),
                Scope::Server(name) => Some(name.to_string()),
            };
            if let Some(server) = server {
                self.end_in_the_background(&server, uri);
            }
        }
    }

    fn end_in_the_background(&self, server: &str, uri: String) {
        if self.subscriptions.remove(server, &uri)
            && let Some(handle) = self.fleet().server(server)
        {
            tokio::spawn(async move {
                let _ = handle.unsubscribe(&uri).await;
            });
        }
    }
}

/// The subscriptions of a listen, ended with it.
struct Kept<'a> {
    desk: &'a Desk,
    client: &'a Client,
    subscriptions: Vec<(String, String)>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        for (server, uri) in self.subscriptions.drain(..) {
            match self.desk.own_for(self.client, &server) {
                Some(own) => own.unsubscribe(&server, uri),
                None => self.desk.end_in_the_background(&server, uri),
            }
        }
    }
}

impl Subscriptions {
    /// Counts one more; `true` when it is the first.
    fn add(&self, server: &str, uri: &str) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((server.to_owned(), uri.to_owned())).or_default();
        *count += 1;
        *count == 1
    }

    /// Counts one less; `true` when it was the last.
    fn remove(&self, server: &str, uri: &str) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (server.to_owned(), uri.to_owned());
        let Some(count) = counts.get_mut(&key) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            counts.remove(&key);
        }
        last
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listen {
    notifications: Wanted,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resource_subscriptions: Vec<String>,
}

fn filter(params: Option<&RawJson>) -> Result<Filter, RpcError> {
    let listen = params.and_then(|params| params.parse::<Listen>().ok());
    let wanted = listen
        .ok_or_else(|| invalid_params("`notifications` is missing, or cannot be read"))?
        .notifications;
    if wanted.resource_subscriptions.len() > MAX_URIS {
        return Err(invalid_params(format!(
            "a listen may subscribe to {MAX_URIS} resources"
        )));
    }
    Ok(Filter {
        tools: wanted.tools_list_changed,
        prompts: wanted.prompts_list_changed,
        resources: wanted.resources_list_changed,
        uris: wanted.resource_subscriptions.into_iter().collect(),
    })
}

/// The acknowledgement of a listen: everything that it asked for is honoured.
fn honoured(filter: &Filter, id: &RawJson) -> RawJson {
    let wanted = serde_json::json!({ "notifications": {
        "toolsListChanged": filter.tools,
        "promptsListChanged": filter.prompts,
        "resourcesListChanged": filter.resources,
        "resourceSubscriptions": filter.uris,
    }});
    let wanted = RawJson::from_value(&wanted).unwrap_or(RawJson::EMPTY_OBJECT);
    labelled(Some(&wanted), id)
}

fn uri(request: &Request<'_>) -> Result<String, RpcError> {
    let params = request
        .params
        .as_ref()
        .and_then(Object::parse)
        .unwrap_or_default();
    string(&params, "uri")
}

/// What a listen that the gateway ends itself is answered with.
pub(crate) fn ended(id: &RawJson) -> RawJson {
    let mut result = Object::parse(&labelled(None, id)).unwrap_or_default();
    result.set("resultType", text("complete"));
    result.to_raw()
}
