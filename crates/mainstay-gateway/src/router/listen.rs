//! The listens of modern clients: each gets what it asked for, until its client closes the request.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use mainstay::gateway::message::{self, Object, Params, RawJson, RpcError};
use serde::Deserialize;
use serde_json::json;

use super::subscribers::{ListFilter, labelled};
use super::subscriptions::{RESOURCE_LIMIT, Topic};
use super::tasks::FOLLOWED_LIMIT;
use super::{RoutedRequest, Router};
use crate::budget::{Account, HeldBytes};
use crate::client::Outbox;
use crate::lock::lock;
use crate::protocol::{invalid_params, raw, text};

/// Messages that wait for the acknowledgement of a listen; more are dropped. Each is a change that happened in the moment between.
const UNACKNOWLEDGED_LIMIT: usize = 1024;

impl Router {
    /// Sends a modern client what it asked for, until it closes the request.
    pub(super) async fn listen(&self, request: &RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let wanted = ListenFilter::read(&request.params)?;
        let account = self.budget.account(request.client.principal);
        let outbox = UnacknowledgedOutbox::new(request.outbox.clone(), account.clone());
        let id = request.run.id();
        let subscriber =
            self.subscribers
                .add_listen(request.client, outbox.clone(), id.clone(), wanted.lists());
        let mut acknowledgement = Acknowledgement::of(&wanted);
        acknowledgement.tasks = self.follow(request, &subscriber, &wanted.task_ids).await?;
        let mut topics = Vec::new();
        for uri in wanted.resource_subscriptions {
            let topic = Topic::resource(uri.clone())?;
            if let Ok(upstream) = self.server_of(request, &uri) {
                acknowledgement.uris.push(uri);
                topics.push((topic, upstream));
            }
        }
        let _held = account.hold(topics.iter().map(|(topic, _)| topic.cost()).sum())?;
        outbox.acknowledge(message::notification(
            "notifications/subscriptions/acknowledged",
            Some(&acknowledgement.params(id)),
        ));
        for (topic, upstream) in topics {
            let expected = subscriber.expect(&topic, &upstream)?;
            // A resource that its server refuses changes nothing for the others.
            if let Ok(subscription) = self
                .subscriptions
                .begin(request.client, upstream, &topic, &self.advice)
                .await
            {
                expected.keep(subscription);
            }
        }
        // The client closes the request, which drops this future, and the subscriber with all its subscriptions.
        std::future::pending::<()>().await;
        Ok(RawJson::EMPTY_OBJECT)
    }
}

/// The answer to a listen that the gateway ends itself.
pub(crate) fn ended(id: &RawJson) -> RawJson {
    let mut result = Object::parse(&labelled(None, id)).unwrap_or_default();
    result.set("resultType", text("complete"));
    result.to_raw()
}

/// What a listen asks for.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListenFilter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resource_subscriptions: Vec<String>,
    task_ids: BTreeSet<String>,
}

impl ListenFilter {
    fn read(params: &Params) -> Result<Self, RpcError> {
        let wanted: Option<Self> = params.get("notifications").and_then(|wanted| wanted.parse().ok());
        let wanted = wanted.ok_or_else(|| invalid_params("`notifications` is missing, or cannot be read"))?;
        if wanted.resource_subscriptions.len() > RESOURCE_LIMIT {
            return Err(invalid_params(format!(
                "a listen may subscribe to {RESOURCE_LIMIT} resources"
            )));
        }
        if wanted.task_ids.len() > FOLLOWED_LIMIT {
            return Err(invalid_params(format!(
                "a listen may follow {FOLLOWED_LIMIT} tasks"
            )));
        }
        Ok(wanted)
    }

    fn lists(&self) -> ListFilter {
        ListFilter {
            tools: self.tools_list_changed,
            prompts: self.prompts_list_changed,
            resources: self.resources_list_changed,
        }
    }
}

/// What a listen will get: changes of all lists, updates of the resources that some server has, and the status of the tasks whose
/// servers agreed.
struct Acknowledgement {
    lists: ListFilter,
    uris: Vec<String>,
    tasks: Vec<String>,
    /// Whether the listen asked for any task.
    follows: bool,
}

impl Acknowledgement {
    fn of(wanted: &ListenFilter) -> Self {
        Self {
            lists: wanted.lists(),
            uris: Vec::new(),
            tasks: Vec::new(),
            follows: !wanted.task_ids.is_empty(),
        }
    }

    fn params(&self, id: &RawJson) -> RawJson {
        let mut notifications = json!({
            "toolsListChanged": self.lists.tools,
            "promptsListChanged": self.lists.prompts,
            "resourcesListChanged": self.lists.resources,
            "resourceSubscriptions": self.uris,
        });
        if self.follows {
            notifications["taskIds"] = json!(self.tasks);
        }
        labelled(Some(&raw(&json!({ "notifications": notifications }))), id)
    }
}

/// The outbox of a listen. Until the acknowledgement is sent, notifications wait here.
struct UnacknowledgedOutbox {
    outbox: Arc<dyn Outbox>,
    /// What waits is charged to the client.
    account: Account,
    /// `None` once the acknowledgement is sent.
    waiting: Mutex<Option<Vec<(Bytes, HeldBytes)>>>,
}

impl UnacknowledgedOutbox {
    fn new(outbox: Arc<dyn Outbox>, account: Account) -> Arc<Self> {
        Arc::new(Self {
            outbox,
            account,
            waiting: Mutex::new(Some(Vec::new())),
        })
    }

    /// Sends the acknowledgement, and then all that has waited for it.
    fn acknowledge(&self, acknowledgement: Bytes) {
        let mut waiting = lock(&self.waiting);
        self.outbox.send(acknowledgement);
        for (message, held) in waiting.take().into_iter().flatten() {
            // The outbox charges it from now on.
            drop(held);
            self.outbox.send(message);
        }
    }
}

impl Outbox for UnacknowledgedOutbox {
    fn send(&self, message: Bytes) -> bool {
        let mut waiting = lock(&self.waiting);
        match &mut *waiting {
            None => self.outbox.send(message),
            Some(waiting) if waiting.len() < UNACKNOWLEDGED_LIMIT => {
                let Ok(held) = self.account.hold_if_room(message.len()) else {
                    return false;
                };
                waiting.push((message, held));
                true
            }
            Some(_) => false,
        }
    }

    fn offer(&self, message: Bytes) -> bool {
        let waiting = lock(&self.waiting);
        // What the client can miss does not wait.
        waiting.is_none() && self.outbox.offer(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, BudgetLimits, MIB};
    use crate::principal::Principal;

    #[test]
    fn messages_that_wait_for_the_acknowledgement_are_charged_to_the_client() {
        let budget = Arc::new(Budget::new(BudgetLimits {
            all: 4 * MIB,
            share: Some(MIB),
        }));
        let outbox = UnacknowledgedOutbox::new(
            Arc::new(SentMessages::default()),
            budget.account(Principal::session(1)),
        );
        let large = Bytes::from(vec![b'x'; 3 * MIB / 4]);
        assert!(outbox.send(large.clone()));
        assert_eq!(budget.held(), large.len());
        assert!(!outbox.send(large), "it does not fit into the client's share");
        outbox.acknowledge("acknowledged".into());
        assert_eq!(budget.held(), 0);
    }

    #[derive(Default)]
    struct SentMessages(Mutex<Vec<Bytes>>);

    impl Outbox for SentMessages {
        fn send(&self, message: Bytes) -> bool {
            self.0.lock().unwrap().push(message);
            true
        }

        fn offer(&self, message: Bytes) -> bool {
            self.send(message)
        }
    }

    #[test]
    fn messages_that_come_before_the_acknowledgement_are_sent_after_it() {
        let sent = Arc::new(SentMessages::default());
        let account = Arc::new(Budget::default()).account(Principal::session(1));
        let outbox = UnacknowledgedOutbox::new(sent.clone(), account);
        for n in 0..=UNACKNOWLEDGED_LIMIT {
            let fits = outbox.send(n.to_string().into());
            assert_eq!(fits, n < UNACKNOWLEDGED_LIMIT);
        }
        assert!(!outbox.offer("can be missed".into()));
        assert!(sent.0.lock().unwrap().is_empty());
        outbox.acknowledge("acknowledged".into());
        outbox.send("after".into());
        let sent = sent.0.lock().unwrap();
        assert_eq!(sent[0], "acknowledged");
        assert_eq!(
            (&sent[1], &sent[UNACKNOWLEDGED_LIMIT]),
            (&"0".into(), &"1023".into())
        );
        assert_eq!(sent[UNACKNOWLEDGED_LIMIT + 1], "after");
    }
}
