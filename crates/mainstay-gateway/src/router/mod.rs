//! The router: answers requests, whichever door they came through.
//!
//! It answers from the published catalog what it can (`initialize`, `lists`), and forwards the rest to a server (`forward`, to the
//! server and under the names that `resolve` finds). Outside of requests it sends clients what they subscribed to (`subscribers`,
//! by `listen` and `subscriptions`), and handles their notifications (`client_notifications`).

mod client_notifications;
mod decisive;
mod extensions;
mod forward;
mod initialize;
mod line_copy;
mod listen;
mod lists;
mod log_level;
mod pages;
mod parked;
mod places;
mod resolve;
mod state;
mod subscribers;
mod subscriptions;
pub(crate) mod tasks;

use std::sync::Arc;

use mainstay::catalog::Kind;
use mainstay::gateway::message::{Params, RawJson, RpcError};
use mainstay::{Catalog, Era, Fleet};
use tracing::Instrument;

pub(crate) use listen::ended;
pub use lists::ServerWait;
pub(crate) use lists::StartWaits;
pub(crate) use log_level::Level;
pub(crate) use pages::CacheHint;
pub(crate) use places::TooManyCalls;
#[cfg(any(test, fuzzing))]
pub(crate) use state::fuzz as fuzz_state;
pub(crate) use subscribers::{
    RESOURCE_UPDATED, Subscriber, Subscribers, TASK_FOLLOWED, TASK_STATUS, changed_kinds, task_id,
};

use crate::budget::Budget;
use crate::client::{Client, Outbox, RunningRequest};
use crate::door::HttpCaller;
use crate::failure::Advice;
use crate::isolation::Isolated;
use crate::observer::{ObservedRequest, RequestObserver};
use crate::principal::Principal;
use crate::protocol::{ClientMeta, method_not_found};
use crate::scope::Scope;
use crate::sessions::{DoorKind, SessionNotes};
use extensions::RecentDeclarations;
use lists::Lists;
use parked::ParkedCalls;
use places::CallPlaces;
use subscriptions::Subscriptions;

/// The longest method, in bytes. A request that runs keeps copies of it, which no budget counts.
const METHOD_LIMIT: usize = 1024;

pub(crate) struct Router {
    fleet: Fleet,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) isolated: Arc<Isolated>,
    /// The bytes that are held for clients.
    pub(crate) budget: Arc<Budget>,
    pub(crate) observer: RequestObserver,
    lists: Lists,
    parked: ParkedCalls,
    places: Arc<CallPlaces>,
    subscriptions: Subscriptions,
    declarations: RecentDeclarations,
    /// What the program knows to do about failures.
    pub(crate) advice: Advice,
}

/// One request, as it came through a door.
pub(crate) struct RoutedRequest<'a> {
    pub(crate) client: &'a Arc<Client>,
    /// Where everything goes that belongs to this request, its answer excepted.
    pub(crate) outbox: &'a Arc<dyn Outbox>,
    pub(crate) run: &'a RunningRequest,
    pub(crate) method: &'a str,
    /// Empty once they are forwarded.
    pub(crate) params: Params,
    pub(crate) meta: ClientMeta,
}

/// The result of a request.
pub(crate) struct RoutedResult {
    /// What a server answered, or the gateway itself. The page of a list may be shared with other clients.
    pub(crate) payload: RawJson,
    /// How the client may cache the list, to be added to the page.
    pub(crate) hint: Option<CacheHint>,
}

impl From<RawJson> for RoutedResult {
    fn from(payload: RawJson) -> Self {
        Self { payload, hint: None }
    }
}

impl Router {
    /// A router with the default budget, which measures and advises nothing.
    pub(crate) fn new(fleet: Fleet, subscribers: Arc<Subscribers>, isolated: Arc<Isolated>) -> Self {
        Self {
            fleet,
            subscribers,
            isolated,
            budget: Arc::default(),
            observer: RequestObserver::default(),
            lists: Lists::default(),
            parked: ParkedCalls::new(),
            places: Arc::default(),
            subscriptions: Subscriptions::default(),
            declarations: RecentDeclarations::default(),
            advice: Advice::default(),
        }
    }

    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The catalog as this client sees it.
    fn catalog(&self, client: &Client) -> Arc<Catalog> {
        self.isolated.catalog(client.own(), self.fleet.catalog())
    }

    /// Takes what is published at the start as known to every client.
    pub(crate) fn note_lists(&self, catalog: &Arc<Catalog>) {
        self.subscribers.note_lists(catalog, &self.isolated);
    }

    /// The published catalog has changed, and perhaps the servers.
    pub(crate) fn catalog_changed(&self, catalog: &Arc<Catalog>) {
        self.servers_changed();
        self.subscribers.catalog_changed(catalog, &self.isolated);
    }

    /// There may be other servers under the same names: subscriptions and extensions are declared there again. Lists of removed servers are
    /// forgotten.
    pub(crate) fn servers_changed(&self) {
        self.lists.forget_removed(&self.fleet);
        self.subscriptions.renew(&self.fleet);
        self.declarations.forget();
    }

    /// Opens the session of a client. The caller opened it, where there can be several.
    pub(crate) fn open_session(
        &self,
        scope: Scope,
        caller: Option<HttpCaller>,
        door: DoorKind,
    ) -> Arc<Client> {
        let notes = SessionNotes::new(door, self.observer.unread.clone());
        let client = Client::of_session(scope, &self.isolated, &self.subscribers.tasks, caller, notes);
        client.set_subscriber(self.subscribers.add_session(&client));
        client
    }

    /// The client of one modern request, which belongs to no session.
    pub(crate) fn client_of_request(
        &self,
        principal: Principal,
        scope: Scope,
        meta: &ClientMeta,
    ) -> Arc<Client> {
        let tasks = self.subscribers.tasks.of(principal, scope.clone());
        let notes = SessionNotes::new(DoorKind::Http, self.observer.unread.clone());
        Client::of_request(principal, scope, tasks, meta, notes)
    }

    /// Closes a session: its subscriptions and own servers end. The door ends its requests.
    pub(crate) fn close_session(&self, client: &Client) {
        client.set_standing_outbox(None);
        if let Some(subscriber) = client.subscriber() {
            subscriber.close();
        }
        if let Some(own) = client.own() {
            own.close();
        }
        self.observer
            .session_ended(client.since().elapsed().unwrap_or_default());
        self.forget_level(client);
        self.roots_may_have_changed(&client.scope);
    }

    /// Answers a request; `None` when the client has cancelled it.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub(crate) async fn answer(&self, request: RoutedRequest<'_>) -> Option<Result<RoutedResult, RpcError>> {
        let _reachable = request.client.reachable(request.outbox);
        let run = request.run;
        let observed = ObservedRequest::begin(&self.observer, &request);
        let span = observed.span();
        let answer = tokio::select! {
            // A request that was cancelled before it began reaches no server.
            biased;
            () = run.cancelled() => None,
            answer = self.dispatch(request).instrument(span) => Some(answer),
        };
        let result = answer.as_ref().map(Result::as_ref);
        observed.end(result.map(|result| result.map(|result| &result.payload)));
        answer
    }

    async fn dispatch(&self, request: RoutedRequest<'_>) -> Result<RoutedResult, RpcError> {
        request.params.check_members()?;
        decisive::check(request.method, &request.params)?;
        if request.method.len() > METHOD_LIMIT {
            let length = request.method.len();
            let what = format!("the method has {length} bytes, and {METHOD_LIMIT} are the most");
            return Err(RpcError::new(RpcError::INVALID_REQUEST, what));
        }
        if let Scope::Server(name) = &request.client.scope
            && self.fleet.server(name).is_none()
        {
            return Err(resolve::removed(name));
        }
        self.check_session(request.client)?;
        // A modern client may begin with any request.
        if request.client.era == Era::Modern {
            self.declare_extensions(request.client);
        }
        match request.method {
            "tools/list" => self.list(&request, Kind::Tool).await,
            "prompts/list" => self.list(&request, Kind::Prompt).await,
            "resources/list" => self.list(&request, Kind::Resource).await,
            "resources/templates/list" => self.list(&request, Kind::Template).await,
            _no_list_of_the_catalog => self.dispatch_other(request).await.map(RoutedResult::from),
        }
    }

    async fn dispatch_other(&self, request: RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let era = request.client.era;
        match request.method {
            "initialize" if era == Era::Legacy => self.initialize(&request).await,
            "server/discover" if era == Era::Modern => self.discover(request.client).await,
            "ping" if era == Era::Legacy => Ok(RawJson::EMPTY_OBJECT),
            // The modern era has no such methods, whatever the server behind may still know.
            "initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "tasks/list"
                if era == Era::Modern =>
            {
                Err(method_not_found(request.method))
            }
            "resources/subscribe" => self.subscribe(&request).await,
            "resources/unsubscribe" => self.unsubscribe(&request).await,
            "logging/setLevel" => self.set_level(&request).await,
            "subscriptions/listen" if era == Era::Modern => self.listen(&request).await,
            "tasks/list" if request.client.scope == Scope::Union => self.list_tasks(&request).await,
            _list if self.lists_extension(&request) => self.list_extension(&request).await,
            _of_a_server => self.forward(request).await,
        }
    }
}
