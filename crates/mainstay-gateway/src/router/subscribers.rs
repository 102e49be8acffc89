//! The subscribers: sessions of legacy clients and listens of modern ones, and the notifications that they get outside of calls.

mod list_changes;
mod subscriber;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use mainstay::ClientHandler;
use mainstay::catalog::Kind;
use mainstay::gateway::message::{self, Object, RawJson, RpcError};
use mainstay::handler::{Answer, NamedClient, ServerNotification, ServerRequest};

use super::Level;
use super::log_level::ServerLevels;
use super::subscriptions::{Subscription, Topic};
use super::tasks::{ClientTasks, OwnTasks};
use crate::client::{Client, Outbox, URL_ELICITATION_COMPLETE};
use crate::isolation::OwnServers;
use crate::protocol::SUBSCRIPTION_KEY;
use crate::scope::Scope;
use list_changes::SeenLists;
pub(crate) use list_changes::changed_kinds;
pub(crate) use subscriber::{ListFilter, Subscriber, TASK_FOLLOWED, TASK_STATUS, task_id};

pub(crate) const RESOURCE_UPDATED: &str = "notifications/resources/updated";

/// All subscribers. It is the fleet's handler, so everything comes here that no call caused.
///
/// A client of a shared server gets what its own calls, subscriptions and tasks cause, and changes of the lists that it has seen.
#[derive(Default)]
pub(crate) struct Subscribers {
    /// There is one client, so everything that a server sends outside of calls is for that client.
    pub(super) has_one_client: bool,
    /// Whose tasks there are: what a server sends for one of them is for the client that began it.
    pub(super) tasks: ClientTasks,
    table: Mutex<SubscriberTable>,
    pub(super) levels: ServerLevels,
    /// Notifications outside of calls that were for no client.
    dropped: AtomicU64,
}

#[derive(Default)]
struct SubscriberTable {
    last_id: u64,
    entries: HashMap<u64, SubscriberEntry>,
    seen: SeenLists,
}

struct SubscriberEntry {
    scope: Scope,
    delivery: SubscriberDelivery,
    lists: ListFilter,
    /// The servers of its session's own.
    own: Option<Arc<OwnServers>>,
    /// The tasks of its principal.
    tasks: OwnTasks,
    topics: HashMap<Topic, TopicSubscription>,
}

/// A topic that a subscriber gets notifications of.
struct TopicSubscription {
    /// Notifications of other servers do not count.
    server: Arc<str>,
    /// Whether the server is the session's own.
    is_own: bool,
    /// `None` while the server is being asked.
    subscription: Option<Subscription>,
}

/// How notifications reach a subscriber.
enum SubscriberDelivery {
    /// A session, on its standing outbox.
    Session(Weak<Client>),
    /// A listen, on its own outbox, under its own id.
    Listen(Arc<dyn Outbox>, RawJson),
}

impl Subscribers {
    /// The subscribers of a gateway that has one client.
    pub(crate) fn of_one_client() -> Self {
        Self {
            has_one_client: true,
            tasks: ClientTasks::new(true),
            ..Self::default()
        }
    }

    /// Notifications outside of calls that were for no client.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Adds a session. It gets updates of the resources that it subscribes to, and of every list that it has seen.
    pub(crate) fn add_session(self: &Arc<Self>, client: &Arc<Client>) -> Subscriber {
        let delivery = SubscriberDelivery::Session(Arc::downgrade(client));
        self.add(client, delivery, ListFilter::default())
    }

    /// Adds a listen. It gets what it asked for.
    pub(crate) fn add_listen(
        self: &Arc<Self>,
        client: &Client,
        outbox: Arc<dyn Outbox>,
        id: RawJson,
        lists: ListFilter,
    ) -> Subscriber {
        self.add(client, SubscriberDelivery::Listen(outbox, id), lists)
    }

    fn add(self: &Arc<Self>, client: &Client, delivery: SubscriberDelivery, lists: ListFilter) -> Subscriber {
        let mut table = self.table();
        table.last_id += 1;
        let id = table.last_id;
        let entry = SubscriberEntry {
            scope: client.scope.clone(),
            delivery,
            lists,
            own: client.own().cloned(),
            tasks: client.tasks.clone(),
            topics: HashMap::new(),
        };
        table.entries.insert(id, entry);
        Subscriber {
            subscribers: self.clone(),
            id,
        }
    }

    /// Sends an update of a resource to those who subscribed to it: at the shared server, or at the session's `own` server.
    pub(crate) fn resource_updated(
        &self,
        server: &str,
        own: Option<&Arc<OwnServers>>,
        params: Option<&RawJson>,
    ) {
        let Some(topic) = resource(params) else { return };
        let broadcast = Broadcast::of_change(RESOURCE_UPDATED, params);
        for entry in self.table().entries.values() {
            if entry.is_subscribed(&topic, server, own) {
                entry.send(&broadcast);
            }
        }
    }

    /// Sends a change of the lists of a session's own server to that session and its listens.
    pub(crate) fn own_lists_changed(&self, own: &Arc<OwnServers>, server: &str, kinds: &[Kind]) {
        for entry in self.table().entries.values() {
            if entry.is_of(own) && entry.scope.holds(server) {
                entry.send_list_changes(kinds.iter().copied());
            }
        }
    }

    /// Sends "answered" to the sessions that were sent to a URL for this question; `false` when there is none.
    fn url_elicitation_complete(&self, notification: &ServerNotification) -> bool {
        let (server, params) = (&notification.server, notification.params.as_ref());
        let mut asked = self.sessions_of(server, usize::MAX);
        asked.retain(|session| session.elicited.has(server, params));
        for session in &asked {
            session.notify_outside_calls(notification.clone());
        }
        !asked.is_empty()
    }

    /// Sessions that share this server, so many at most.
    pub(super) fn sessions_of(&self, server: &str, most: usize) -> Vec<Arc<Client>> {
        let table = self.table();
        let entries = table.entries.values().filter(|entry| entry.shares(server));
        entries.filter_map(SubscriberEntry::session).take(most).collect()
    }

    /// The session that sees this server, if it is the only one; otherwise why there is none.
    pub(super) fn only_session(&self, server: &str) -> Result<Arc<Client>, &'static str> {
        let mut sessions = self.sessions_of(server, 2).into_iter();
        match (sessions.next(), sessions.next()) {
            (None, _) => Err("no client is there"),
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => {
                Err("several clients share this server, and no running call identifies one")
            }
        }
    }

    /// Sends what a server says outside of calls to the one client of this gateway.
    fn notify_only_client(&self, mut notification: ServerNotification) {
        match self.only_session(&notification.server) {
            Ok(only) => {
                notification.params = notification.params.as_ref().map(unlabelled);
                only.notify_outside_calls(notification);
            }
            Err(_why) => self.drop_unattributed(&notification),
        }
    }

    /// No client's calls, subscriptions or tasks caused this notification.
    fn drop_unattributed(&self, notification: &ServerNotification) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if dropped.is_power_of_two() {
            let ServerNotification { server, method, .. } = notification;
            tracing::debug!(%server, method, dropped, "dropped: no client caused it");
        }
    }

    /// The most verbose level that any session wants of this server.
    pub(super) fn most_verbose(&self, server: &str) -> Option<Level> {
        let table = self.table();
        let entries = table.entries.values().filter(|entry| entry.scope.holds(server));
        entries.filter_map(|entry| entry.session()?.level()).min()
    }

    /// The clients that have a session.
    pub(crate) fn sessions(&self) -> Vec<Arc<Client>> {
        let table = self.table();
        table
            .entries
            .values()
            .filter_map(SubscriberEntry::session)
            .collect()
    }

    fn table(&self) -> MutexGuard<'_, SubscriberTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscriberEntry {
    fn session(&self) -> Option<Arc<Client>> {
        match &self.delivery {
            SubscriberDelivery::Session(client) => client.upgrade(),
            SubscriberDelivery::Listen(..) => None,
        }
    }

    /// Whether it subscribed to this topic at this server: the shared one, or the one that its session has among its `own`.
    fn is_subscribed(&self, topic: &Topic, server: &str, own: Option<&Arc<OwnServers>>) -> bool {
        let subscribed = self.topics.get(topic);
        subscribed.is_some_and(|topic| *topic.server == *server && topic.is_own == own.is_some())
            && own.is_none_or(|own| self.is_of(own))
    }

    /// Whether it sees the shared server of this name. A template server is shared with no session.
    fn shares(&self, server: &str) -> bool {
        let has_its_own = self.own.as_ref().is_some_and(|own| own.isolates(server));
        self.scope.holds(server) && !has_its_own
    }

    /// Whether it is of the session that has these servers.
    fn is_of(&self, own: &Arc<OwnServers>) -> bool {
        self.own.as_ref().is_some_and(|its| Arc::ptr_eq(its, own))
    }

    fn send(&self, broadcast: &Broadcast<'_>) {
        let (outbox, message) = match &self.delivery {
            SubscriberDelivery::Session(client) => {
                let Some(outbox) = client.upgrade().and_then(|client| client.standing_outbox()) else {
                    return;
                };
                (outbox, broadcast.for_sessions())
            }
            SubscriberDelivery::Listen(outbox, id) => (outbox.clone(), broadcast.for_listen(id)),
        };
        match broadcast.is_of_change {
            true => outbox.send_once(message),
            false => outbox.send(message),
        };
    }
}

impl ClientHandler for Subscribers {
    /// The client that began the task which the parameters name. Of its sessions, one that calls the server now knows best what it is
    /// about.
    fn named_client(&self, server: &str, params: Option<&RawJson>) -> NamedClient {
        let Some(task) = self.tasks.related_to(server, params) else {
            return NamedClient::None;
        };
        let sessions = self.sessions_of(server, usize::MAX).into_iter();
        let owners = sessions.filter(|session| session.tasks.has(server, &task));
        let owner = owners.max_by_key(|session| (session.running.is_at(server), session.number()));
        owner.map_or(NamedClient::Gone, |owner| NamedClient::Here(owner))
    }

    /// No call of a client caused the request, so no client may answer it. Only roots are also asked for outside of calls.
    fn request(&self, request: ServerRequest) -> Answer<'_> {
        if request.method == "roots/list" {
            return self.ask_for_roots(request);
        }
        let what = format!(
            "{} declined: no call of a client is running that it could be for",
            request.method
        );
        let declined = RpcError::new(RpcError::INVALID_REQUEST, what);
        Box::pin(std::future::ready(Err(declined)))
    }

    fn notification(&self, notification: ServerNotification) {
        let (server, params) = (&notification.server, notification.params.as_ref());
        match notification.method.as_str() {
            RESOURCE_UPDATED => self.resource_updated(server, None, params),
            TASK_FOLLOWED => self.followed_task_changed(server, None, params),
            _other if self.has_one_client => self.notify_only_client(notification),
            TASK_STATUS => {
                if let Some(id) = task_id(params) {
                    self.task_changed(server, &id, params, None);
                }
            }
            URL_ELICITATION_COMPLETE => {
                self.url_elicitation_complete(&notification);
            }
            _other => self.drop_unattributed(&notification),
        }
    }
}

/// One notification for several subscribers: written once for all sessions, and for each listen under its own id.
struct Broadcast<'a> {
    method: &'a str,
    params: Option<&'a RawJson>,
    /// It says that something changed, and not to what: a subscriber that has yet to read one needs no second.
    is_of_change: bool,
    for_sessions: OnceCell<Bytes>,
}

impl<'a> Broadcast<'a> {
    /// Says that something changed.
    fn of_change(method: &'a str, params: Option<&'a RawJson>) -> Self {
        Self {
            method,
            params,
            is_of_change: true,
            for_sessions: OnceCell::new(),
        }
    }

    /// Says how something is now.
    fn of_state(method: &'a str, params: Option<&'a RawJson>) -> Self {
        Self {
            is_of_change: false,
            ..Self::of_change(method, params)
        }
    }

    fn for_sessions(&self) -> Bytes {
        let written = self.for_sessions.get_or_init(|| {
            let params = self.params.map(unlabelled);
            message::notification(self.method, params.as_ref())
        });
        written.clone()
    }

    fn for_listen(&self, id: &RawJson) -> Bytes {
        let params = labelled(self.params, id);
        message::notification(self.method, Some(&params))
    }
}

/// Parameters that say which listen they belong to.
pub(super) fn labelled(params: Option<&RawJson>, id: &RawJson) -> RawJson {
    let mut params = params.and_then(Object::parse).unwrap_or_default();
    let mut meta = params.get("_meta").and_then(Object::parse).unwrap_or_default();
    meta.set(SUBSCRIPTION_KEY, id.clone());
    params.set("_meta", meta.to_raw());
    params.to_raw()
}

/// The parameters without the label of the gateway's own listen at the server, which means nothing to a session.
fn unlabelled(params: &RawJson) -> RawJson {
    let labelled = Some(params).filter(|params| params.may_hold(SUBSCRIPTION_KEY));
    let without = labelled.and_then(Object::parse).and_then(|mut params| {
        let mut meta = Object::parse(params.get("_meta")?)?;
        meta.remove(SUBSCRIPTION_KEY)?;
        params.set("_meta", meta.to_raw());
        Some(params.to_raw())
    });
    without.unwrap_or_else(|| params.clone())
}

fn resource(params: Option<&RawJson>) -> Option<Topic> {
    let params = params.and_then(Object::parse)?;
    params.get("uri")?.parse().ok().map(Topic::Resource)
}
