//! Who wants to be told of what happens: the sessions of legacy clients, and the listens of modern ones.

mod hearing;
mod overhearing;
mod own;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mainstay::message::{self, Object, RawJson, RpcError};
use mainstay::{Answer, Catalog, ClientHandler, Item, Kind, Offer, ServerNotification, ServerRequest};

use super::levels::Levels;
use super::subscriptions::Subscription;
use super::{Level, tasks};
use crate::client::{Client, Line};
use crate::isolation::{Isolated, OwnServers};
use crate::protocol::SUBSCRIPTION_KEY;
use crate::scope::Scope;
pub(crate) use hearing::Hearing;

const TASK_STATUS: &str = "notifications/tasks/status";

/// Everybody who hears. It is the fleet's handler: what no call caused comes here.
#[derive(Default)]
pub(crate) struct Audience {
    seats: Mutex<Seats>,
    pub(super) levels: Levels,
    /// What servers told that nobody could be told.
    unheard: AtomicU64,
}

#[derive(Default)]
struct Seats {
    last: u64,
    hearers: HashMap<u64, Hearer>,
    /// What each scope showed when it was last looked at.
    seen: HashMap<(Scope, Kind), u64>,
}

struct Hearer {
    scope: Scope,
    way: Way,
    filter: Filter,
    /// The servers of its session's own.
    own: Option<Arc<OwnServers>>,
    /// The resources that it subscribes to, by their uris.
    resources: HashMap<String, Heard>,
}

/// A resource that somebody hears of.
struct Heard {
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
    Listen(Arc<dyn Line>, RawJson),
}

/// The lists whose changes somebody wants to hear of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

impl Audience {
    /// A session hears of the resources that it subscribes to, and of every change of a list that it has seen.
    pub(crate) fn seat_session(self: &Arc<Self>, client: &Arc<Client>) -> Hearing {
        let way = Way::Session(Arc::downgrade(client));
        self.seat(
            client.scope.clone(),
            way,
            Filter::default(),
            client.own().cloned(),
        )
    }

    /// A listen hears of what it asked for.
    pub(crate) fn seat_listen(
        self: &Arc<Self>,
        scope: Scope,
        line: Arc<dyn Line>,
        id: RawJson,
        filter: Filter,
        own: Option<Arc<OwnServers>>,
    ) -> Hearing {
        self.seat(scope, Way::Listen(line, id), filter, own)
    }

    fn seat(
        self: &Arc<Self>,
        scope: Scope,
        way: Way,
        filter: Filter,
        own: Option<Arc<OwnServers>>,
    ) -> Hearing {
        let mut seats = self.seats();
        seats.last += 1;
        let seat = seats.last;
        let hearer = Hearer {
            scope,
            way,
            filter,
            own,
            resources: HashMap::new(),
        };
        seats.hearers.insert(seat, hearer);
        Hearing {
            audience: self.clone(),
            seat,
        }
    }

    /// Tells whoever sees a list that changed. Each is told once for each list, however much changed in it.
    pub(crate) fn catalog_changed(&self, catalog: &Catalog, isolated: &Isolated) {
        let mut seats = self.seats();
        let mut changed = Vec::new();
        let mut look = |scope: Scope, kind: Kind, now: u64| {
            if seats.seen.insert((scope.clone(), kind), now) != Some(now) {
                changed.push((scope, kind));
            }
        };
        let isolated_names = isolated.names();
        for kind in Kind::ALL {
            // Those that sessions have for themselves are looked at one by one: who sees which differs.
            let is_shared = |server: &str| !isolated.holds(server);
            look(Scope::Union, kind, of_union(catalog, kind, is_shared));
            for server in &isolated_names {
                let now = fingerprint_of(catalog, server, kind);
                look(Scope::Server(server.clone()), kind, now);
            }
            for server in catalog.servers().filter(|server| is_shared(server)) {
                if let Some(listed) = catalog.server(server) {
                    let items = listed.items(kind).iter().map(Item::raw);
                    look(Scope::Server(server.into()), kind, fingerprint(items));
                }
            }
        }
        for hearer in seats.hearers.values() {
            let mine = changed.iter().filter(|(scope, _)| hearer.sees(scope, isolated));
            hearer.tell_of_lists(mine.map(|(_, kind)| *kind));
        }
    }

    fn resource_updated(&self, server: &str, params: Option<&RawJson>) {
        let Some(uri) = uri(params) else { return };
        for hearer in self.seats().hearers.values() {
            if hearer.hears(&uri, server, false) {
                hearer.tell("notifications/resources/updated", params);
            }
        }
    }

    /// Tells whoever has begun a task how it is; `false` when nobody here has.
    fn task_changed(&self, server: &str, params: Option<&RawJson>) -> bool {
        let Some(id) = task_id(params) else { return false };
        let mut is_told = false;
        for hearer in self.seats().hearers.values() {
            let begun = hearer
                .session()
                .is_some_and(|client| client.tasks.has(server, &id));
            if begun && hearer.scope.holds(server) {
                let shown = tasks::shown(&hearer.scope, server, TASK_STATUS, params.cloned());
                hearer.tell(TASK_STATUS, shown.as_ref());
                is_told = true;
            }
        }
        is_told
    }

    /// Sessions that share this server, so many at most.
    pub(super) fn sessions_of(&self, server: &str, most: usize) -> Vec<Arc<Client>> {
        let seats = self.seats();
        let hearers = seats.hearers.values().filter(|hearer| hearer.shares(server));
        hearers.filter_map(Hearer::session).take(most).collect()
    }

    /// The most that any session wants this server to log.
    pub(super) fn most_verbose(&self, server: &str) -> Option<Level> {
        let seats = self.seats();
        let hearers = seats.hearers.values().filter(|hearer| hearer.scope.holds(server));
        hearers.filter_map(Hearer::level).min()
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hearer {
    /// Whether it sees what changed in the fleet that all share.
    fn sees(&self, changed: &Scope, isolated: &Isolated) -> bool {
        match changed {
            Scope::Server(name) if isolated.holds(name) => {
                let follows = self.own.as_ref().is_some_and(|own| own.follows_pattern(name));
                follows && self.scope.holds(name)
            }
            Scope::Server(_) | Scope::Union => *changed == self.scope,
        }
    }

    fn tell_of_lists(&self, kinds: impl Iterator<Item = Kind>) {
        let mut methods: Vec<_> = kinds.filter_map(|kind| self.filter.method(kind)).collect();
        // Resources and their templates share a method, and so do several servers. They come kind by kind.
        methods.dedup();
        for method in methods {
            self.tell(method, None);
        }
    }

    fn tell(&self, method: &str, params: Option<&RawJson>) {
        match &self.way {
            Way::Session(client) => {
                if let Some(client) = client.upgrade() {
                    let params = params.map(unlabelled);
                    client.tell(message::notification(method, params.as_ref()));
                }
            }
            Way::Listen(line, id) => {
                let params = labelled(params, id);
                line.send(message::notification(method, Some(&params)));
            }
        }
    }
}

impl Hearer {
    fn session(&self) -> Option<Arc<Client>> {
        match &self.way {
            Way::Session(client) => client.upgrade(),
            Way::Listen(..) => None,
        }
    }

    /// Whether it subscribed to this resource of this server: the one that all share, or its session's own.
    fn hears(&self, uri: &str, server: &str, is_own: bool) -> bool {
        let heard = self.resources.get(uri);
        heard.is_some_and(|heard| *heard.server == *server && heard.is_own == is_own)
    }

    /// How much a session wants logged, where it says so.
    fn level(&self) -> Option<Level> {
        self.session()?.level()
    }
}

impl Filter {
    fn method(&self, kind: Kind) -> Option<&'static str> {
        let (wanted, method) = match kind {
            Kind::Tool => (self.tools, "notifications/tools/list_changed"),
            Kind::Prompt => (self.prompts, "notifications/prompts/list_changed"),
            Kind::Resource | Kind::Template => (self.resources, "notifications/resources/list_changed"),
        };
        wanted.then_some(method)
    }
}

impl ClientHandler for Audience {
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
            TASK_STATUS => {
                self.task_changed(server, params);
            }
            _other => self.overhear(notification),
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

/// What one server shows of a kind, as a number.
pub(crate) fn fingerprint_of(catalog: &Catalog, server: &str, kind: Kind) -> u64 {
    of_union(catalog, kind, |its| its == server)
}

fn of_union(catalog: &Catalog, kind: Kind, counts: impl Fn(&str) -> bool) -> u64 {
    fn of<'a, T>(offers: &'a [Offer<T>], counts: impl Fn(&str) -> bool + 'a) -> u64 {
        let offers = offers.iter().filter(|offer| counts(offer.server()));
        fingerprint(offers.map(Offer::published))
    }
    match kind {
        Kind::Tool => of(catalog.tools(), counts),
        Kind::Prompt => of(catalog.prompts(), counts),
        Kind::Resource => of(catalog.resources(), counts),
        Kind::Template => of(catalog.templates(), counts),
    }
}

fn uri(params: Option<&RawJson>) -> Option<String> {
    let params = params.and_then(Object::parse)?;
    params.get("uri")?.parse().ok()
}

fn task_id(params: Option<&RawJson>) -> Option<String> {
    let params = params.and_then(Object::parse)?;
    params.get("taskId")?.parse().ok()
}

fn fingerprint<'a>(items: impl Iterator<Item = &'a RawJson>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    items.for_each(|item| item.hash(&mut hasher));
    hasher.finish()
}
