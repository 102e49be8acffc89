//! Who wants to be told of what happens: the sessions of legacy clients, and the listens of modern ones.

mod answered;
mod lists;
mod news;
mod own;
mod subscriber;
mod tasks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mainstay::ClientHandler;
use mainstay::catalog::Kind;
use mainstay::gateway::message::{Object, RawJson, RpcError};
use mainstay::handler::{Answer, ServerNotification, ServerRequest};

use super::Level;
use super::levels::Levels;
use super::subscriptions::{Subscription, Topic};
use super::tasks::OwnTasks;
use crate::client::{Client, Outbox, elicited};
use crate::isolation::OwnServers;
use crate::protocol::SUBSCRIPTION_KEY;
use crate::scope::Scope;
pub(crate) use lists::{Filter, fingerprint_of};
use news::News;
pub(crate) use subscriber::Subscriber;
pub(crate) use tasks::{STATUS as TASK_STATUS, id as task_id};

/// Everybody who hears. It is the fleet's handler: what no call caused comes here.
///
/// On a shared server a client hears what its own calls, subscriptions and tasks cause, and changes of the lists that it has
/// seen.
#[derive(Default)]
pub(crate) struct Subscribers {
    /// Nobody else is there who could be concerned by what a server tells outside of calls.
    pub(super) has_one_client: bool,
    seats: Mutex<Seats>,
    pub(super) levels: Levels,
    /// What servers told outside of calls that reached no client.
    unheard: AtomicU64,
}

#[derive(Default)]
struct Seats {
    last: u64,
    hearers: HashMap<u64, SubscriberEntry>,
    /// What each scope showed when it was last looked at.
    seen: HashMap<(Scope, Kind), u64>,
}

struct SubscriberEntry {
    scope: Scope,
    way: Way,
    filter: Filter,
    /// The servers of its session's own.
    own: Option<Arc<OwnServers>>,
    /// The tasks of its principal.
    tasks: OwnTasks,
    /// What it subscribes to.
    topics: HashMap<Topic, TopicSubscription>,
}

/// A topic that somebody hears of.
struct TopicSubscription {
    /// Only this server's word counts.
    server: Arc<str>,
    /// Whether it is the session's own.
    is_own: bool,
    /// None while the server is being asked.
    subscription: Option<Subscription>,
}

/// How somebody is told.
enum Way {
    /// A session, on its standing line, wherever that is.
    Session(Weak<Client>),
    /// A listen, on its own line, under its own id.
    Listen(Arc<dyn Outbox>, RawJson),
}

impl Subscribers {
    /// The audience of a gateway that has one client.
    pub(crate) fn of_one_client() -> Self {
        Self {
            has_one_client: true,
            ..Self::default()
        }
    }

    /// A session hears of the resources that it subscribes to, and of every change of a list that it has seen.
    pub(crate) fn seat_session(self: &Arc<Self>, client: &Arc<Client>) -> Subscriber {
        let way = Way::Session(Arc::downgrade(client));
        self.seat(client, way, Filter::default())
    }

    /// A listen hears of what it asked for.
    pub(crate) fn seat_listen(
        self: &Arc<Self>,
        client: &Client,
        line: Arc<dyn Outbox>,
        id: RawJson,
        filter: Filter,
    ) -> Subscriber {
        self.seat(client, Way::Listen(line, id), filter)
    }

    fn seat(self: &Arc<Self>, client: &Client, way: Way, filter: Filter) -> Subscriber {
        let mut seats = self.seats();
        seats.last += 1;
        let seat = seats.last;
        let hearer = SubscriberEntry {
            scope: client.scope.clone(),
            way,
            filter,
            own: client.own().cloned(),
            tasks: client.tasks.clone(),
            topics: HashMap::new(),
        };
        seats.hearers.insert(seat, hearer);
        Subscriber {
            subscribers: self.clone(),
            seat,
        }
    }

    fn resource_updated(&self, server: &str, params: Option<&RawJson>) {
        let Some(topic) = resource(params) else { return };
        let news = News::of_change("notifications/resources/updated", params);
        for hearer in self.seats().hearers.values() {
            if hearer.hears(&topic, server, false) {
                hearer.tell(&news);
            }
        }
    }

    /// Sessions that share this server, so many at most.
    pub(super) fn sessions_of(&self, server: &str, most: usize) -> Vec<Arc<Client>> {
        let seats = self.seats();
        let hearers = seats.hearers.values().filter(|hearer| hearer.shares(server));
        hearers.filter_map(SubscriberEntry::session).take(most).collect()
    }

    /// Tells what a server says outside of calls to the one client that there is.
    fn tell_only_client(&self, mut notification: ServerNotification) {
        match self.only_session(&notification.server) {
            Ok(only) => {
                notification.params = notification.params.as_ref().map(unlabelled);
                only.overhear(notification);
            }
            Err(_why) => self.drop_unheard(&notification),
        }
    }

    /// No client's calls, subscriptions or tasks caused it.
    fn drop_unheard(&self, notification: &ServerNotification) {
        let unheard = self.unheard.fetch_add(1, Ordering::Relaxed) + 1;
        if unheard.is_power_of_two() {
            let ServerNotification { server, method, .. } = notification;
            tracing::debug!(%server, method, unheard, "dropped: no client caused it");
        }
    }

    /// The most that any session wants this server to log.
    pub(super) fn most_verbose(&self, server: &str) -> Option<Level> {
        let seats = self.seats();
        let hearers = seats.hearers.values().filter(|hearer| hearer.scope.holds(server));
        hearers.filter_map(SubscriberEntry::level).min()
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscriberEntry {
    fn session(&self) -> Option<Arc<Client>> {
        match &self.way {
            Way::Session(client) => client.upgrade(),
            Way::Listen(..) => None,
        }
    }

    /// Whether it subscribed to this topic at this server: the one that all share, or its session's own.
    fn hears(&self, topic: &Topic, server: &str, is_own: bool) -> bool {
        let heard = self.topics.get(topic);
        heard.is_some_and(|heard| *heard.server == *server && heard.is_own == is_own)
    }

    /// How much a session wants logged, where it says so.
    fn level(&self) -> Option<Level> {
        self.session()?.level()
    }
}

impl ClientHandler for Subscribers {
    /// Nobody in particular caused it, so nobody in particular may answer; only roots are also asked for in general.
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
            "notifications/resources/updated" => self.resource_updated(server, params),
            tasks::FOLLOWED => self.followed_task_changed(server, params),
            _other if self.has_one_client => self.tell_only_client(notification),
            tasks::STATUS => {
                if let Some(id) = tasks::id(params) {
                    self.task_changed(server, &id, params);
                }
            }
            elicited::ANSWERED => {
                self.answered_elsewhere(&notification);
            }
            _other => self.drop_unheard(&notification),
        }
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

/// The same parameters without the label of the gateway's own listen: a session has none.
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
