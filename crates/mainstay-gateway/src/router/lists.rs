//! Lists from the published catalog: written once for each content, and sent as they are. One server's lists are in the order of the
//! server, those of the union in the order of the servers' names and then of the items' names.
//!
//! The gateway answers at once. It waits only for a server that was never listed, within a bound: clients would believe an empty list.
//! Each wait ends as soon as an attempt to start the server has failed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use mainstay::catalog::{CatalogHash, Item, Kind, Offer, ServerCatalog};
use mainstay::config::ToolView;
use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{INLINE_LIMIT, Object, RawJson, RpcError, process_payload};
use mainstay::server::NotConnected;
use mainstay::{CallError, CallOptions, Catalog, Era, Fleet, Server, StateKind, Status};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::pages::{Cursor, Pages};
use super::resolve::removed;
use super::{RoutedRequest, RoutedResult, Router};
use crate::client::Client;
use crate::failure;
use crate::lock::lock;
use crate::protocol::text;
use crate::scope::Scope;

type ListKey = (Scope, Kind, Era);

/// The lists that were written last.
#[derive(Default)]
pub(super) struct Lists {
    written: Mutex<HashMap<ListKey, WrittenList>>,
    /// Locked while a large list is written: many clients that ask for it at once do not multiply the memory for it.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct WrittenList {
    version: ListVersion,
    pages: Arc<Pages>,
}

/// What a written list depends on. How long clients may cache it is not written: that is another with every millisecond.
#[derive(Clone, PartialEq)]
struct ListVersion {
    content: CatalogHash,
    /// The names and descriptions of tools, which change without the catalog.
    view: Option<Arc<ToolView>>,
}

/// Where the items of a list come from.
enum ListSource {
    Union(Arc<Catalog>),
    Server(Arc<ServerCatalog>, Arc<ToolView>),
    Nothing,
}

impl Router {
    pub(super) async fn list(
        &self,
        request: &RoutedRequest<'_>,
        kind: Kind,
    ) -> Result<RoutedResult, RpcError> {
        let cursor = Cursor::read(request.params.get("cursor"))?;
        match &request.client.scope {
            Scope::Union => self.any_listed(request.client).await,
            Scope::Server(name) => {
                let server = self.fleet().server(name).ok_or_else(|| removed(name))?;
                self.one_listed(request.client, &server).await?;
            }
        }
        // Before the list is looked up: a change in between causes a needless notification at worst, and is never missed.
        if let Some(subscriber) = request.client.subscriber() {
            subscriber.sees(kind);
        }
        let catalog = self.catalog(request.client);
        let hint = match request.client.era {
            Era::Legacy => None,
            Era::Modern => Some(self.cache_hint(&catalog, request.client, kind)),
        };
        let pages = self.pages(request.client, catalog, kind).await;
        Ok(RoutedResult {
            payload: pages.page(cursor)?,
            hint,
        })
    }

    async fn pages(&self, client: &Client, catalog: Arc<Catalog>, kind: Kind) -> Arc<Pages> {
        let (scope, era) = (&client.scope, client.era);
        let server = match scope {
            Scope::Union => None,
            Scope::Server(name) => self.fleet().server(name),
        };
        // What is published: a server that is disabled, or has failed permanently, offers nothing.
        let listed = server
            .as_ref()
            .and_then(|server| catalog.server(server.name()).cloned());
        let version = ListVersion {
            content: listed
                .as_ref()
                .map_or_else(|| catalog.hash(), |listed| listed.hash()),
            view: server.as_ref().map(ServerExt::view),
        };
        let source = match (scope, listed, &version.view) {
            (Scope::Union, _, _) => ListSource::Union(catalog),
            (Scope::Server(_), Some(listed), Some(view)) => ListSource::Server(listed, view.clone()),
            (Scope::Server(_), _, _) => ListSource::Nothing,
        };
        self.lists.get((scope.clone(), kind, era), version, source).await
    }
}

impl Lists {
    /// The pages of this version of a list: those that were written for it, or new ones. A thread that may block writes large lists.
    ///
    /// Cancel safety: dropping it changes nothing.
    async fn get(&self, key: ListKey, version: ListVersion, source: ListSource) -> Arc<Pages> {
        let current = |lists: &Self| {
            let written = lock(&lists.written).get(&key).cloned();
            let current = written.filter(|written| written.version == version);
            current.map(|written| written.pages)
        };
        if let Some(pages) = current(self) {
            return pages;
        }
        let (kind, era) = (key.1, key.2);
        let length = source.length(kind);
        let _writing = match length > INLINE_LIMIT {
            true => Some(self.writing.lock().await),
            false => None,
        };
        if let Some(pages) = current(self) {
            return pages;
        }
        let write = move || Arc::new(Pages::write(kind, era, &source.items(kind)));
        let pages = process_payload(length, write).await;
        let written = WrittenList {
            version,
            pages: pages.clone(),
        };
        lock(&self.written).insert(key, written);
        pages
    }
}

impl Lists {
    /// Forgets the lists of servers that this fleet does not have any more.
    pub(super) fn forget_removed(&self, fleet: &Fleet) {
        let is_there = |scope: &Scope| match scope {
            Scope::Union => true,
            Scope::Server(name) => fleet.server(name).is_some(),
        };
        lock(&self.written).retain(|(scope, ..), _| is_there(scope));
    }
}

impl ListSource {
    /// How many bytes its items have.
    fn length(&self, kind: Kind) -> usize {
        fn sum<'a>(items: impl Iterator<Item = &'a RawJson>) -> usize {
            items.map(|item| item.as_bytes().len()).sum()
        }
        match self {
            Self::Union(catalog) => match kind {
                Kind::Tool => sum(catalog.tools().iter().map(Offer::published)),
                Kind::Prompt => sum(catalog.prompts().iter().map(Offer::published)),
                Kind::Resource => sum(catalog.resources().iter().map(Offer::published)),
                Kind::Template => sum(catalog.templates().iter().map(Offer::published)),
            },
            Self::Server(listed, _) => sum(listed.items(kind).iter().map(Item::raw)),
            Self::Nothing => 0,
        }
    }

    fn items(&self, kind: Kind) -> Vec<RawJson> {
        match self {
            Self::Union(catalog) => match kind {
                Kind::Tool => published(catalog.tools()),
                Kind::Prompt => published(catalog.prompts()),
                Kind::Resource => published(catalog.resources()),
                Kind::Template => published(catalog.templates()),
            },
            Self::Server(listed, view) => {
                let items = listed.listed(kind);
                match kind {
                    Kind::Tool => items
                        .filter(|item| view.admits(item.key()))
                        .map(|item| shown(item, view))
                        .collect(),
                    Kind::Prompt | Kind::Resource | Kind::Template => {
                        items.map(|item| item.raw().clone()).collect()
                    }
                }
            }
            Self::Nothing => Vec::new(),
        }
    }
}

fn published<T>(offers: &[Offer<T>]) -> Vec<RawJson> {
    offers.iter().map(|offer| offer.published().clone()).collect()
}

/// A tool with the name and the description that the configuration gives it.
fn shown(item: &Item, view: &ToolView) -> RawJson {
    let name = view.public_name(item.key());
    let description = view.describe(item.key());
    if name == item.key() && description.is_none() {
        return item.raw().clone();
    }
    let Some(mut tool) = Object::parse(item.raw()) else {
        return item.raw().clone();
    };
    tool.set("name", text(name));
    if let Some(description) = description {
        tool.set("description", text(description));
    }
    tool.to_raw()
}

/// How long a client of the union waits in all, while no server was ever connected.
const UNION_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the first list of a session waits for its server's current list, before it gets the list of an earlier run.
const LIVE_LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// When a client began to wait. Its requests share what is left of the time.
#[derive(Default)]
pub(crate) struct StartWaits {
    union: OnceLock<Instant>,
    live_list: OnceLock<Instant>,
    /// How long its calls wait for a server, if the client says so itself.
    server: OnceLock<ServerWait>,
}

/// How long the calls of one client wait for a server that is not connected, in place of the server's own `wait_timeout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerWait {
    /// The limit; `None` for that of the server.
    pub limit: Option<Duration>,
    /// Whether a call waits up to its own deadline for the first start of a server.
    pub whole_first_start: bool,
}

impl Router {
    /// Waits until a server of the union has completed a handshake, where none ever has and one is starting.
    pub(super) async fn any_introduced(&self, client: &Client) {
        if self.reachable(client).any(|server| server.about().is_some()) {
            return;
        }
        let mut waiting = JoinSet::new();
        for server in self.reachable(client) {
            let left = client.waits.left_for_union();
            waiting.spawn(async move { server.wait_introduced(left).await.is_ok() });
        }
        any(waiting).await;
    }

    /// Waits until a server of the union has been listed, where none ever was and one is starting.
    pub(super) async fn any_listed(&self, client: &Client) {
        if self.reachable(client).any(|server| server.catalog().is_some()) {
            return;
        }
        let mut waiting = JoinSet::new();
        for server in self.reachable(client) {
            let left = client.waits.left_for_union();
            waiting.spawn(async move { server.wait_listed(left).await.is_ok() });
        }
        any(waiting).await;
    }

    /// Waits until one server has been listed, and a little longer for its current list. Fails where there is no list because the
    /// server is not up.
    pub(super) async fn one_listed(&self, client: &Client, server: &Server) -> Result<(), RpcError> {
        let wait = client.waits.for_server(server).unwrap_or(server.wait_timeout());
        let listed = server.wait_listed(wait).await;
        listed.map_err(|error| failure::not_up(&error, &self.advice))?;
        if client.own().is_some() && has_not_failed(&server.status()) {
            let is_settled = |status: &Status| status.stale_since.is_none() || !has_not_failed(status);
            let left = client.waits.left_for_live_list();
            server.wait_until(left, is_settled).await;
        }
        match server.status() {
            failed if failed.state == StateKind::PermanentlyFailed => {
                let error = CallError::from(NotConnected::from(&failed));
                Err(failure::not_up(&error, &self.advice))
            }
            _published_or_disabled => Ok(()),
        }
    }

    fn reachable(&self, client: &Client) -> impl Iterator<Item = Server> {
        let servers = self.fleet().servers().into_iter();
        servers.filter(|server| self.is_reachable(client, server.name()))
    }
}

/// Returns when one of them has succeeded, or all have failed.
async fn any(mut waiting: JoinSet<bool>) {
    while let Some(done) = waiting.join_next().await {
        if done.unwrap_or(false) {
            return;
        }
    }
}

impl StartWaits {
    fn left_for_union(&self) -> Duration {
        left(&self.union, UNION_TIMEOUT)
    }

    fn left_for_live_list(&self) -> Duration {
        left(&self.live_list, LIVE_LIST_TIMEOUT)
    }

    /// Notes how long the calls of this client wait.
    pub(crate) fn note(&self, wait: ServerWait) {
        self.server.get_or_init(|| wait);
    }

    /// How long a call to this server waits for it now; `None` for as long as the server's own limit.
    fn for_server(&self, server: &Server) -> Option<Duration> {
        let wait = self.server.get()?;
        match wait.whole_first_start && has_not_failed(&server.status()) {
            true => Some(Duration::MAX),
            false => wait.limit,
        }
    }

    /// The options of a call to this server, with the client's own limit.
    pub(super) fn apply(&self, options: CallOptions, server: &Server) -> CallOptions {
        match self.for_server(server) {
            Some(limit) => options.wait_timeout(limit),
            None => options,
        }
    }
}

/// Whether a server is starting, and has not failed since the gateway has kept it.
fn has_not_failed(status: &Status) -> bool {
    status.is_starting() && status.last_error.is_none()
}

fn left(since: &OnceLock<Instant>, limit: Duration) -> Duration {
    limit.saturating_sub(since.get_or_init(Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::DoorKind;

    #[tokio::test(start_paused = true)]
    async fn lists_of_removed_servers_are_forgotten() {
        let gateway = crate::fuzzing::gateway();
        let router = &gateway.0;
        for scope in [Scope::Union, Scope::Server("a".into())] {
            let client = router.open_session(scope, None, DoorKind::Stdio);
            router.pages(&client, router.catalog(&client), Kind::Tool).await;
        }
        assert_eq!(lock(&router.lists.written).len(), 2);
        gateway.apply([]).await;
        let written = lock(&router.lists.written);
        let scopes: Vec<_> = written.keys().map(|(scope, ..)| scope).collect();
        assert_eq!(scopes, [&Scope::Union]);
    }
}
