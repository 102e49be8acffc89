//! Who wants to be told of what happens: the sessions of legacy clients, and the listens of modern ones.

mod own;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mainstay::message::{self, Object, RawJson, RpcError};
use mainstay::{Answer, Catalog, ClientHandler, Item, Kind, Offer, ServerNotification, ServerRequest};

use crate::client::{Client, Line};
use crate::isolation::{Isolated, OwnServers};
use crate::protocol::SUBSCRIPTION_KEY;
use crate::scope::Scope;

/// Everybody who hears. It is the fleet's handler: what no call caused comes here.
#[derive(Default)]
pub(crate) struct Audience(Mutex<Seats>);

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
}

/// How somebody is told.
enum Way {
    /// A session, on its standing line, wherever that is.
    Session(Weak<Client>),
    /// A listen, on its own line, under its own id.
    Listen(Arc<dyn Line>, RawJson),
}

/// What somebody wants to hear of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    /// The resources that it subscribes to, with the server of each.
    pub(crate) uris: BTreeMap<String, String>,
}

/// A seat in the audience, kept as long as this lives.
pub(crate) struct Hearing {
    audience: Arc<Audience>,
    seat: u64,
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
        seats.hearers.insert(
            seat,
            Hearer {
                scope,
                way,
                filter,
                own,
            },
        );
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
            if hearer.scope.holds(server) && hearer.filter.uris.contains_key(&uri) {
                hearer.tell("notifications/resources/updated", params);
            }
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hearing {
    /// Hears of every change of this list from now on: it is about to be seen.
    pub(crate) fn sees(&self, kind: Kind) {
        if let Some(hearer) = self.audience.seats().hearers.get_mut(&self.seat) {
            match kind {
                Kind::Tool => hearer.filter.tools = true,
                Kind::Prompt => hearer.filter.prompts = true,
                Kind::Resource | Kind::Template => hearer.filter.resources = true,
            }
        }
    }

    /// The resources that are subscribed to, with the server of each.
    pub(crate) fn subscriptions(&self) -> BTreeMap<String, String> {
        let seats = self.audience.seats();
        let hearer = seats.hearers.get(&self.seat);
        hearer
            .map(|hearer| hearer.filter.uris.clone())
            .unwrap_or_default()
    }

    /// Adds a resource of this server; `false` when it was there.
    pub(crate) fn subscribe(&self, uri: &str, server: &str) -> bool {
        let mut seats = self.audience.seats();
        let Some(hearer) = seats.hearers.get_mut(&self.seat) else {
            return false;
        };
        let uris = &mut hearer.filter.uris;
        if uris.contains_key(uri) {
            return false;
        }
        uris.insert(uri.to_owned(), server.to_owned());
        true
    }

    /// Removes a resource; its server, if it was there.
    pub(crate) fn unsubscribe(&self, uri: &str) -> Option<String> {
        let mut seats = self.audience.seats();
        seats.hearers.get_mut(&self.seat)?.filter.uris.remove(uri)
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.audience.seats().hearers.remove(&self.seat);
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
    /// Nobody in particular caused it, so nobody in particular may answer.
    fn request(&self, request: ServerRequest) -> Answer<'_> {
        let what = format!(
            "{} declined: no call of a client is running that it could be for",
            request.method
        );
        let declined = RpcError::new(RpcError::INVALID_REQUEST, what);
        Box::pin(std::future::ready(Err(declined)))
    }

    fn notification(&self, notification: ServerNotification) {
        let ServerNotification {
            server,
            method,
            params,
            ..
        } = notification;
        match method.as_str() {
            "notifications/resources/updated" => self.resource_updated(&server, params.as_ref()),
            _other => tracing::debug!(%server, method, "belongs to no call, and is told nobody"),
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
    let without = Object::parse(params).and_then(|mut params| {
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

fn fingerprint<'a>(items: impl Iterator<Item = &'a RawJson>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    items.for_each(|item| item.hash(&mut hasher));
    hasher.finish()
}
