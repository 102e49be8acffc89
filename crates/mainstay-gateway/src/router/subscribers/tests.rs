use serde_json::{Value, json};

use super::*;
use crate::lock::lock;
use crate::principal::{Principal, TokenDigest};
use crate::protocol::{ClientMeta, raw};
use crate::sessions::{DoorKind, SessionNotes};

/// Keeps what it is sent, and whether the table could be locked meanwhile.
struct ProbingOutbox {
    subscribers: Arc<Subscribers>,
    sent: Mutex<Vec<(Value, bool)>>,
}

impl ProbingOutbox {
    fn new(subscribers: &Arc<Subscribers>) -> Arc<Self> {
        let subscribers = subscribers.clone();
        Arc::new(Self {
            subscribers,
            sent: Mutex::default(),
        })
    }

    /// The only message that was sent.
    fn only(&self) -> (Value, bool) {
        let sent = lock(&self.sent);
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent[0].clone()
    }
}

impl Outbox for ProbingOutbox {
    fn send(&self, message: Bytes) -> bool {
        let is_free = self.subscribers.table.try_lock().is_ok();
        let message = serde_json::from_slice(&message).expect("a message");
        lock(&self.sent).push((message, is_free));
        true
    }

    fn offer(&self, message: Bytes) -> bool {
        self.send(message)
    }
}

/// A listen at the server `s` that is subscribed to a topic.
fn listen(
    subscribers: &Arc<Subscribers>,
    id: u64,
    topic: &Topic,
) -> (Subscriber, Arc<ProbingOutbox>, Arc<Client>) {
    let (principal, scope) = (Principal::Token(TokenDigest::of("t")), Scope::Server("s".into()));
    let tasks = subscribers.tasks.of(principal, scope.clone());
    let notes = SessionNotes::new(DoorKind::Http, Arc::default());
    let client = Client::of_request(principal, scope, tasks, &ClientMeta::default(), notes);
    let outbox = ProbingOutbox::new(subscribers);
    let subscriber = subscribers.add_listen(&client, outbox.clone(), id.into(), ListFilter::default());
    let subscribed = TopicSubscription {
        server: "s".into(),
        is_own: false,
        subscription: None,
    };
    let mut table = subscribers.table();
    let entry = table.entries.get_mut(&subscriber.id).expect("it was just added");
    entry.topics.insert(topic.clone(), subscribed);
    drop(table);
    (subscriber, outbox, client)
}

#[test]
fn the_table_is_not_locked_while_notifications_are_written_and_sent() {
    let subscribers = Arc::new(Subscribers::default());
    let resource = Topic::Resource("mem://one".into());
    let task = Topic::Task {
        server: "s".into(),
        id: "1".into(),
    };
    let update = raw(&json!({ "uri": "mem://one", "title": "one" }));
    let status = raw(&json!({ "taskId": "1", "status": "completed" }));
    type Change<'a> = (&'a str, &'a Topic, &'a dyn Fn());
    let changes: [Change<'_>; 2] = [
        (RESOURCE_UPDATED, &resource, &|| {
            subscribers.resource_updated("s", None, Some(&update));
        }),
        (TASK_FOLLOWED, &task, &|| {
            subscribers.followed_task_changed("s", None, Some(&status));
        }),
    ];
    for (method, topic, change) in changes {
        let listens: Vec<_> = (1..=3).map(|id| (id, listen(&subscribers, id, topic))).collect();
        change();
        for (id, (_subscriber, outbox, _client)) in &listens {
            let (message, is_free) = outbox.only();
            assert_eq!(message["method"], method);
            assert_eq!(message["params"]["_meta"][SUBSCRIPTION_KEY], *id, "{message}");
            assert!(is_free, "{method} was sent under the lock");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_task_reaches_the_sessions_of_its_principal_outside_of_the_lock() {
    let gateway = crate::fuzzing::gateway();
    let subscribers = &gateway.0.subscribers;
    let session = gateway.0.open_session(Scope::Union, None, DoorKind::Stdio);
    let outbox = ProbingOutbox::new(subscribers);
    session.set_standing_outbox(Some(outbox.clone()));
    session.tasks.note("s", "1");
    let status = raw(&json!({ "status": "working", "taskId": "1" }));
    assert!(subscribers.task_changed("s", "1", Some(&status), None));
    let (message, is_free) = outbox.only();
    assert!(is_free, "it was sent under the lock");
    assert_eq!(message["params"]["taskId"], session.tasks.public_id("s", "1"));
    assert_eq!(message["params"]["status"], "working");
}

#[test]
fn an_update_that_is_too_long_is_cut_to_its_uri() {
    let subscribers = Arc::new(Subscribers::default());
    let topic = Topic::Resource("mem://one".into());
    for (length, is_whole) in [(UPDATE_LIMIT / 2, true), (UPDATE_LIMIT, false)] {
        let (_subscriber, outbox, _client) = listen(&subscribers, 7, &topic);
        let update = raw(&json!({ "title": "x".repeat(length), "uri": "mem://one" }));
        subscribers.resource_updated("s", None, Some(&update));
        let (message, _) = outbox.only();
        assert_eq!(message["params"]["uri"], "mem://one");
        assert_eq!(message["params"]["_meta"][SUBSCRIPTION_KEY], 7);
        assert_eq!(message["params"]["title"].is_string(), is_whole, "{length}");
    }
}
