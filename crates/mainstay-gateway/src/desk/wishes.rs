//! What clients want for longer than one request: resources to be told of, and how much is logged.

use std::sync::Arc;
use std::time::Duration;

use mainstay::Server;
use mainstay::message::{self, Object, RawJson, RpcError};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::audience::{Filter, Hearing, labelled};
use super::naming::string;
use super::{Desk, Level, Request};
use crate::client::Client;
use crate::isolation::OwnServers;
use crate::protocol::{invalid_params, text};
use crate::scope::Scope;

/// Resources that one listen may subscribe to.
const MAX_URIS: usize = 10_000;

/// How long all servers may take to be told of a level. Those that take longer keep the wish for their next connection.
const TELL_ALL: Duration = Duration::from_secs(2);

impl Desk {
    pub(super) async fn subscribe(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        let server = self.server_of(request, &uri)?;
        let Some(hearing) = request.client.hearing() else {
            return Err(invalid_params("there is no session that could be told"));
        };
        if hearing.subscribe(&uri, &server)
            && let Err(error) = self.begin_subscription(request.client, &server, &uri).await
        {
            if hearing.unsubscribe(&uri).is_some() {
                self.leave_subscription(request.client, &server, uri);
            }
            return Err(error);
        }
        Ok(RawJson::EMPTY_OBJECT)
    }

    pub(super) async fn unsubscribe(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        let left = request
            .client
            .hearing()
            .and_then(|hearing| hearing.unsubscribe(&uri));
        if let Some(server) = left {
            // The client is told nothing any more, whatever the server says to it.
            match self.own_for(request.client, &server) {
                Some(own) => own.unsubscribe(&server, uri),
                None => drop(self.subscriptions.end(self.fleet(), &server, &uri).await),
            }
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
        let mut filter = filter;
        for (uri, server) in &mut filter.uris {
            // What no server has yet, none can be told of.
            *server = self.server_of(request, uri).unwrap_or_default();
        }
        let wanted = filter.uris.clone();
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
        for (uri, server) in wanted.into_iter().filter(|(_, server)| !server.is_empty()) {
            // Noted before it is waited for: whoever goes away meanwhile has subscribed.
            kept.subscriptions.push((server.clone(), uri.clone()));
            let begun = self.begin_subscription(request.client, &server, &uri).await;
            if begun.is_err() {
                kept.subscriptions.pop();
                self.leave_subscription(request.client, &server, uri);
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
        match self.own_for(client, server) {
            Some(own) => own.subscribe(server, &self.fleet().catalog(), uri).await,
            None => self.subscriptions.begin(self.fleet(), server, uri).await,
        }
    }

    /// Ends a subscription. Nobody waits for it.
    fn leave_subscription(&self, client: &Client, server: &str, uri: String) {
        match self.own_for(client, server) {
            Some(own) => own.unsubscribe(server, uri),
            None => drop(self.subscriptions.end(self.fleet(), server, &uri)),
        }
    }

    /// Ends what a client that went away had subscribed to; a server of its own ends with it. Nobody waits for it.
    pub(crate) fn end_subscriptions(&self, client: &Client, hearing: &Hearing) {
        for (uri, server) in hearing.subscriptions() {
            if self.own_for(client, &server).is_none() {
                self.leave_subscription(client, &server, uri);
            }
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
            self.desk.leave_subscription(self.client, &server, uri);
        }
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
        uris: wanted
            .resource_subscriptions
            .into_iter()
            .map(|uri| (uri, String::new()))
            .collect(),
    })
}

/// The acknowledgement of a listen: everything that it asked for is honoured.
fn honoured(filter: &Filter, id: &RawJson) -> RawJson {
    let wanted = serde_json::json!({ "notifications": {
        "toolsListChanged": filter.tools,
        "promptsListChanged": filter.prompts,
        "resourcesListChanged": filter.resources,
        "resourceSubscriptions": filter.uris.keys().collect::<Vec<_>>(),
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
