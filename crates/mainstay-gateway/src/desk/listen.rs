//! The listens of modern clients: each hears what it asked for, until its client goes away.

use mainstay::message::{self, Object, RawJson, RpcError};
use serde::Deserialize;

use super::audience::{Filter, labelled};
use super::subscriptions::MAX_URIS;
use super::{Desk, Request};
use crate::protocol::{invalid_params, text};

impl Desk {
    /// Tells a modern client what it asked for, until it goes away.
    pub(super) async fn listen(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let wanted = wanted(request.params.as_ref())?;
        let (line, id) = (request.line.clone(), request.id.clone());
        let scope = request.client.scope.clone();
        let filter = wanted.filter();
        let mut uris = Vec::new();
        for uri in wanted.resource_subscriptions {
            if let Ok(reached) = self.server_of(request, &uri) {
                uris.push((uri, reached));
            }
        }
        let honoured = honoured(&filter, uris.iter().map(|(uri, _)| uri.as_str()), &id);
        line.send(message::notification(
            "notifications/subscriptions/acknowledged",
            Some(&honoured),
        ));
        let hearing = self
            .audience
            .seat_listen(scope, line, id, filter, request.client.own().cloned());
        for (uri, reached) in uris {
            let expecting = hearing.expect(&uri, &reached)?;
            // One that its server refuses keeps nothing else from being heard.
            if let Ok(subscription) = self.subscriptions.begin(request.client, reached, &uri).await {
                expecting.keep(subscription);
            }
        }
        // Until the client goes away, which drops this, and the seat with all that it subscribed to.
        std::future::pending::<()>().await;
        Ok(RawJson::EMPTY_OBJECT)
    }
}

/// What a listen that the gateway ends itself is answered with.
pub(crate) fn ended(id: &RawJson) -> RawJson {
    let mut result = Object::parse(&labelled(None, id)).unwrap_or_default();
    result.set("resultType", text("complete"));
    result.to_raw()
}

#[derive(Deserialize)]
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

impl Wanted {
    fn filter(&self) -> Filter {
        Filter {
            tools: self.tools_list_changed,
            prompts: self.prompts_list_changed,
            resources: self.resources_list_changed,
        }
    }
}

fn wanted(params: Option<&RawJson>) -> Result<Wanted, RpcError> {
    let listen = params.and_then(|params| params.parse::<Listen>().ok());
    let wanted = listen
        .ok_or_else(|| invalid_params("`notifications` is missing, or cannot be read"))?
        .notifications;
    if wanted.resource_subscriptions.len() > MAX_URIS {
        return Err(invalid_params(format!(
            "a listen may subscribe to {MAX_URIS} resources"
        )));
    }
    Ok(wanted)
}

/// The acknowledgement of a listen: everything is honoured that it asked for and that some server has.
fn honoured<'a>(filter: &Filter, uris: impl Iterator<Item = &'a str>, id: &RawJson) -> RawJson {
    let wanted = serde_json::json!({ "notifications": {
        "toolsListChanged": filter.tools,
        "promptsListChanged": filter.prompts,
        "resourcesListChanged": filter.resources,
        "resourceSubscriptions": uris.collect::<Vec<_>>(),
    }});
    let wanted = RawJson::from_value(&wanted).unwrap_or(RawJson::EMPTY_OBJECT);
    labelled(Some(&wanted), id)
}
