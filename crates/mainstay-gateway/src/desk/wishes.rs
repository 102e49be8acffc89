//! What clients want for longer than one request: resources to be told of, and how much is logged.

use std::time::Duration;

use mainstay::message::{self, Object, RawJson, RpcError};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::audience::{Filter, Hearing, labelled};
use super::naming::string;
use super::{Desk, Level, Request};
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
            && let Err(error) = self.subscriptions.begin(self.fleet(), &server, &uri).await
        {
            if hearing.unsubscribe(&uri).is_some() {
                drop(self.subscriptions.end(self.fleet(), &server, &uri));
            }
            return Err(error);
        }
        Ok(RawJson::EMPTY_OBJECT)
    }

    pub(super) async fn unsubscribe(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        let left = request.client.hearing().and_then(|hearing| hearing.unsubscribe(&uri));
        if let Some(server) = left {
            // The client is told nothing any more, whatever the server says to it.
            let _ = self.subscriptions.end(self.fleet(), &server, &uri).await;
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
        for server in request.client.scope.servers(self.fleet()) {
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
        let _hearing = self.audience.seat_listen(scope, line, id, filter);
        let mut kept = Kept {
            desk: self,
            subscriptions: Vec::new(),
        };
        for (uri, server) in wanted.into_iter().filter(|(_, server)| !server.is_empty()) {
            let begun = self.subscriptions.begin(self.fleet(), &server, &uri);
            // Noted before it is waited for: whoever goes away meanwhile has subscribed.
            kept.subscriptions.push((server, uri));
            if begun.await.is_err()
                && let Some((server, uri)) = kept.subscriptions.pop()
            {
                drop(self.subscriptions.end(self.fleet(), &server, &uri));
            }
        }
        // Until the client goes away, which drops this.
        std::future::pending::<()>().await;
        Ok(RawJson::EMPTY_OBJECT)
    }

    fn server_of(&self, request: &Request<'_>, uri: &str) -> Result<String, RpcError> {
        match &request.client.scope {
            Scope::Union => self.owner(uri, request.client.era),
            Scope::Server(name) => Ok(name.to_string()),
        }
    }

    /// Ends what a client that went away had subscribed to. Nobody waits for it.
    pub(crate) fn end_subscriptions(&self, hearing: &Hearing) {
        for (uri, server) in hearing.subscriptions() {
            drop(self.subscriptions.end(self.fleet(), &server, &uri));
        }
    }
}

/// The subscriptions of a listen, ended with it.
struct Kept<'a> {
    desk: &'a Desk,
    subscriptions: Vec<(String, String)>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        for (server, uri) in self.subscriptions.drain(..) {
            drop(self.desk.subscriptions.end(self.desk.fleet(), &server, &uri));
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
