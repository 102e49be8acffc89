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
use crate::protocol::{SUBSCRIPTION_KEY, text};
use crate::scope::Scope;
use list_changes::SeenLists;
pub(crate) use list_changes::changed_kinds;
use subscriber::send_list_changes;
pub(crate) use subscriber::{ListFilter, Subscriber, TASK_FOLLOWED, TASK_STATUS, task_id};

pub(crate) const RESOURCE_UPDATED: &str = "notifications/resources/updated";

/// The longest parameters of an update, in bytes: each subscriber gets a copy. They hold a uri, which has half of it at most where a
/// client could subscribe to it, and perhaps a title.
const UPDATE_LIMIT: usize = 16 * 1024;

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

/// How notifications reach a subscriber. Cloned from the table, so that no notification is written or sent under its lock.
#[derive(Clone)]
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
        let Some((topic, params)) = update(params) else {
            return;
        };
        let subscribed = self.deliveries(|entry| entry.is_subscribed(&topic, server, own));
        if subscribed.is_empty() {
            return;
        }
        let broadcast = Broadcast::of_change(RESOURCE_UPDATED, Some(&params));
        for delivery in &subscribed {
            broadcast.send_to(delivery, None);
        }
    }

    /// How these subscribers are reached.
    fn deliveries(&self, are: impl Fn(&SubscriberEntry) -> bool) -> Vec<SubscriberDelivery> {
        let table = self.table();
        let entries = table.entries.values().filter(|entry| are(entry));
        entries.map(|entry| entry.delivery.clone()).collect()
    }

    /// Sends a change of the lists of a session's own server to that session and its listens.
    pub(crate) fn own_lists_changed(&self, own: &Arc<OwnServers>, server: &str, kinds: &[Kind]) {
        let table = self.table();
        let entries = table.entries.values();
        let sees = entries.filter(|entry| entry.is_of(own) && entry.scope.holds(server));
        let changes: Vec<_> = sees
            .flat_map(|entry| entry.list_changes(kinds.iter().copied()))
            .collect();
        drop(table);
        send_list_changes(&changes);
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
}

impl ClientHandler for Subscribers {
    /// The session that began the task which the parameters name; if it is gone or does not read, another session of its client.
    fn named_client(&self, server: &str, method: &str, params: Option<&RawJson>) -> NamedClient {
        let Some(task) = self.tasks.related_to(server, params) else {
            return NamedClient::None;
        };
        let mut owners = self.sessions_of(server, usize::MAX);
        owners.retain(|session| session.tasks.has(server, &task.id));
        let began = |session: &Client| session.number() == task.session;
        let beginner = owners.iter().find(|session| began(session) && session.reads());
        let substitute = || {
            owners.iter().max_by_key(|session| {
                let can_answer = session.missing_capability_for(method).is_none();
                // A client that left a moment ago may reconnect. Of the others, one that calls the server knows best what it is about.
                let rank = (session.reads(), began(session), session.running.is_at(server));
                (can_answer, rank, session.number())
            })
        };
        match beginner.or_else(substitute) {
            Some(owner) => NamedClient::Here(owner.clone()),
            None => NamedClient::Gone,
        }
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
            _other => {
                let sessions = self.sessions_for_extension(server, &notification.method);
                if sessions.is_empty() {
                    self.drop_unattributed(&notification);
                }
                for session in sessions {
                    session.notify_outside_calls(notification.clone());
                }
            }
        }
    }
}

/// One notification for several subscribers: its parameters are read once, and it is written once for all sessions.
struct Broadcast<'a> {
    method: &'a str,
    /// `None` for a notification without parameters.
    params: Option<SplitParams>,
    /// It says that something changed, and not to what: a subscriber that has yet to read one needs no second.
    is_of_change: bool,
    for_sessions: OnceCell<Bytes>,
}

impl<'a> Broadcast<'a> {
    /// Says that something changed.
    fn of_change(method: &'a str, params: Option<&RawJson>) -> Self {
        Self {
            method,
            params: params.and_then(SplitParams::of),
            is_of_change: true,
            for_sessions: OnceCell::new(),
        }
    }

    /// Says how something is now.
    fn of_state(method: &'a str, params: Option<&RawJson>) -> Self {
        Self {
            is_of_change: false,
            ..Self::of_change(method, params)
        }
    }

    /// Sends it; if it is of a task that the subscriber knows by another id than its server, with that id.
    fn send_to(&self, delivery: &SubscriberDelivery, task: Option<&str>) {
        let (outbox, message) = match delivery {
            SubscriberDelivery::Session(client) => {
                let Some(outbox) = client.upgrade().and_then(|client| client.standing_outbox()) else {
                    return;
                };
                (outbox, self.for_session(task))
            }
            SubscriberDelivery::Listen(outbox, id) => (outbox.clone(), self.write(Some(id), task)),
        };
        match self.is_of_change {
            true => outbox.send_once(message),
            false => outbox.send(message),
        };
    }

    fn for_session(&self, task: Option<&str>) -> Bytes {
        match task {
            Some(_) => self.write(None, task),
            None => self.for_sessions.get_or_init(|| self.write(None, None)).clone(),
        }
    }

    fn write(&self, label: Option<&RawJson>, task: Option<&str>) -> Bytes {
        let params = match (&self.params, label) {
            (Some(params), _) => Some(params.joined(label, task)),
            (None, Some(_)) => Some(SplitParams::default().joined(label, task)),
            (None, None) => None,
        };
        message::notification(self.method, params.as_ref())
    }
}

/// Parameters whose top level and `_meta` were read. Subscribers differ in the label of their listen and in the ids of tasks, which
/// are set without a parse.
#[derive(Default)]
struct SplitParams {
    top: Object,
    meta: Object,
}

impl SplitParams {
    /// Splits parameters; `None` when they are no object.
    fn of(params: &RawJson) -> Option<Self> {
        let top = Object::parse(params)?;
        let meta = top.get("_meta").and_then(Object::parse).unwrap_or_default();
        Some(Self { top, meta })
    }

    /// The parameters for one subscriber. Without a label, that of the gateway's own listen at the server is taken out: it means
    /// nothing to a session.
    fn joined(&self, label: Option<&RawJson>, task: Option<&str>) -> RawJson {
        let mut top = self.top.clone();
        let mut meta = self.meta.clone();
        let is_edited = match label {
            Some(id) => {
                meta.set(SUBSCRIPTION_KEY, id.clone());
                true
            }
            None => meta.remove(SUBSCRIPTION_KEY).is_some(),
        };
        if is_edited {
            top.set("_meta", meta.to_raw());
        }
        if let Some(task) = task {
            top.set("taskId", text(task));
        }
        top.to_raw()
    }
}

/// Parameters that say which listen they belong to.
pub(super) fn labelled(params: Option<&RawJson>, id: &RawJson) -> RawJson {
    let split = params.and_then(SplitParams::of).unwrap_or_default();
    split.joined(Some(id), None)
}

/// The parameters without the label of the gateway's own listen at the server.
fn unlabelled(params: &RawJson) -> RawJson {
    let labelled = Some(params).filter(|params| params.may_hold(SUBSCRIPTION_KEY));
    let split = labelled.and_then(SplitParams::of);
    split.map_or_else(|| params.clone(), |split| split.joined(None, None))
}

/// The resource that an update is of, and the parameters of the update. Those that are too long are cut to the uri, which is all
/// that a client needs to read the resource again.
fn update(params: Option<&RawJson>) -> Option<(Topic, RawJson)> {
    let params = params?;
    let [uri] = Object::find(params, ["uri"])?;
    let uri: String = uri?.parse().ok()?;
    let params = match params.as_bytes().len() <= UPDATE_LIMIT {
        true => params.clone(),
        false => {
            let mut cut = Object::default();
            cut.set("uri", text(&uri));
            cut.to_raw()
        }
    };
    Some((Topic::Resource(uri), params))
}

#[cfg(test)]
mod tests;
