//! The listens of modern clients: each hears what it asked for, until its client goes away.

mod opening;

use std::collections::BTreeSet;

use mainstay::gateway::message::{self, Object, RawJson, RpcError};
use serde::Deserialize;
use serde_json::json;

use super::subscribers::{Filter, labelled};
use super::subscriptions::{MAX_URIS, Topic};
use super::tasks::MAX_FOLLOWED;
use super::{Request, Router};
use crate::protocol::{invalid_params, text};
use opening::Opening;

impl Router {
    /// Tells a modern client what it asked for, until it goes away.
    pub(super) async fn listen(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let wanted = wanted(request.params.as_raw())?;
        let (line, id) = (Opening::new(request.line.clone()), request.run.id().clone());
        let hearing = self
            .subscribers
            .seat_listen(request.client, line.clone(), id, wanted.filter());
        let mut honoured = Honoured::of(&wanted);
        honoured.tasks = self.follow(request, &hearing, &wanted.task_ids).await?;
        let mut topics = Vec::new();
        for uri in wanted.resource_subscriptions {
            if let Ok(reached) = self.server_of(request, &uri) {
                honoured.uris.push(uri.clone());
                topics.push((Topic::Resource(uri), reached));
            }
        }
        let acknowledged = honoured.written(request.run.id());
        line.open(message::notification(
            "notifications/subscriptions/acknowledged",
            Some(&acknowledged),
        ));
        for (topic, reached) in topics {
            let expecting = hearing.expect(&topic, &reached)?;
            // One that its server refuses keeps nothing else from being heard.
            if let Ok(subscription) = self.subscriptions.begin(request.client, reached, &topic).await {
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
    task_ids: BTreeSet<String>,
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
    if wanted.task_ids.len() > MAX_FOLLOWED {
        return Err(invalid_params(format!(
            "a listen may follow {MAX_FOLLOWED} tasks"
        )));
    }
    Ok(wanted)
}

/// What a listen is promised: of the lists all, of the resources those that some server has, of the tasks those that their
/// servers agreed to tell of.
struct Honoured {
    filter: Filter,
    uris: Vec<String>,
    tasks: Vec<String>,
    /// Whether it asked for any task.
    follows: bool,
}

impl Honoured {
    fn of(wanted: &Wanted) -> Self {
        Self {
            filter: wanted.filter(),
            uris: Vec::new(),
            tasks: Vec::new(),
            follows: !wanted.task_ids.is_empty(),
        }
    }

    /// The parameters of the acknowledgement.
    fn written(&self, id: &RawJson) -> RawJson {
        let mut honoured = json!({
            "toolsListChanged": self.filter.tools,
            "promptsListChanged": self.filter.prompts,
            "resourcesListChanged": self.filter.resources,
            "resourceSubscriptions": self.uris,
        });
        if self.follows {
            honoured["taskIds"] = json!(self.tasks);
        }
        let params = RawJson::from_value(&json!({ "notifications": honoured }));
        labelled(Some(&params.unwrap_or(RawJson::EMPTY_OBJECT)), id)
    }
}
