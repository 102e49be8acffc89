//! The router: what a request is answered with, whatever door it came through.
//!
//! It answers from the published catalog what can be answered from it (`greeting`, `lists`), passes on what a server must
//! do (`passing`, by the names of `naming`), and remembers what a client wants to be told (`audience`): of changes, by
//! `listen` and `subscriptions`, and of what servers log, by `levels`.

mod caching;
mod greeting;
mod level;
mod levels;
mod listen;
mod lists;
mod naming;
mod pages;
mod parked;
mod passing;
mod reaching;
mod roots;
mod rounds;
mod starting;
mod state;
mod subscribers;
mod subscriptions;
pub(crate) mod tasks;
mod telling;
mod unlisted;

use std::sync::Arc;

use mainstay::message::{Params, RawJson, RpcError};
use mainstay::{Catalog, Era, Fleet, Kind};

pub(crate) use level::Level;
pub(crate) use listen::ended;
pub(crate) use lists::is_shared;
pub(crate) use starting::Waits;
#[cfg(any(test, fuzzing))]
pub(crate) use state::fuzz as fuzz_state;
pub(crate) use subscribers::{Subscriber, Subscribers, TASK_STATUS, fingerprint_of, task_id};

use crate::budget::{Budget, Limits};
use crate::client::{Client, Outbox, Run};
use crate::door::Caller;
use crate::isolation::Isolated;
use crate::principal::Principal;
use crate::protocol::{RequestMeta, method_not_found};
use crate::scope::Scope;
use lists::Lists;
use parked::Parked;
use subscriptions::Subscriptions;
use tasks::Tasks;

pub(crate) struct Router {
    fleet: Fleet,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) isolated: Arc<Isolated>,
    /// What is held for clients.
    pub(crate) budget: Arc<Budget>,
    lists: Lists,
    parked: Parked,
    subscriptions: Subscriptions,
    tasks: Tasks,
}

/// One request, as it came through a door.
pub(crate) struct Request<'a> {
    pub(crate) client: &'a Arc<Client>,
    /// Where what belongs to this request goes, its answer excepted.
    pub(crate) line: &'a Arc<dyn Outbox>,
    pub(crate) run: &'a Run,
    pub(crate) method: &'a str,
    pub(crate) params: Params,
    pub(crate) meta: RequestMeta,
}

impl Request<'_> {
    /// Takes the parameters out, to be edited and sent. What stays can still be looked at as it came.
    fn take_params(&mut self) -> Params {
        let unread = Params::new(self.params.as_raw().cloned());
        std::mem::replace(&mut self.params, unread)
    }
}

impl Router {
    pub(crate) fn new(fleet: Fleet, subscribers: Arc<Subscribers>, isolated: Arc<Isolated>) -> Self {
        Self {
            fleet,
            tasks: Tasks::new(subscribers.has_one_client),
            subscribers,
            isolated,
            budget: Arc::default(),
            lists: Lists::default(),
            parked: Parked::new(),
            subscriptions: Subscriptions::default(),
        }
    }

    /// The same, with these limits for what is held for clients.
    pub(crate) fn with_limits(self, limits: Limits) -> Self {
        Self {
            budget: Arc::new(Budget::new(limits)),
            ..self
        }
    }

    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// What this client sees of what all servers offer.
    fn catalog(&self, client: &Client) -> Arc<Catalog> {
        self.isolated.catalog(client.own(), self.fleet.catalog())
    }

    /// Something else is offered, perhaps by other servers.
    pub(crate) fn catalog_changed(&self, catalog: &Catalog) {
        self.subscribers.catalog_changed(catalog, &self.isolated);
        self.servers_changed();
    }

    /// There may be other servers under the same names: what is still wanted of those is asked of these.
    pub(crate) fn servers_changed(&self) {
        self.subscriptions.renew(&self.fleet);
    }

    /// A client that stays for longer than a request, of this caller, where there can be several.
    pub(crate) fn welcome(&self, scope: Scope, caller: Option<Caller>) -> Arc<Client> {
        let client = Client::of_session(scope, &self.isolated, &self.tasks, caller);
        client.attend(self.subscribers.seat_session(&client));
        client
    }

    /// A client of one modern request, which belongs to no session.
    pub(crate) fn admit(&self, principal: Principal, scope: Scope, meta: &RequestMeta) -> Arc<Client> {
        let tasks = self.tasks.of(principal, scope.clone());
        Client::of_request(principal, scope, tasks, meta)
    }

    /// The client is gone: nothing of it is left at the servers.
    pub(crate) fn part(&self, client: &Client) {
        client.stand_by(None);
        client.running.cancel_all();
        if let Some(hearing) = client.hearing() {
            hearing.leave();
        }
        if let Some(own) = client.own() {
            own.end();
        }
        self.forget_level(client);
        self.roots_may_have_changed(&client.scope);
    }

    /// Answers a request; `None` when the client has cancelled it, and no answer is wanted.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub(crate) async fn answer(&self, request: Request<'_>) -> Option<Result<RawJson, RpcError>> {
        let _reachable = request.client.reachable(request.line);
        let run = request.run;
        tokio::select! {
            // A request that was cancelled before it began reaches no server.
            biased;
            () = run.cancelled() => None,
            answer = self.dispatch(request) => Some(answer),
        }
    }

    async fn dispatch(&self, request: Request<'_>) -> Result<RawJson, RpcError> {
        request.params.check_members()?;
        if let Scope::Server(name) = &request.client.scope
            && self.fleet.server(name).is_none()
        {
            return Err(unlisted::gone(name));
        }
        self.check_session(request.client)?;
        let era = request.client.era;
        match request.method {
            "initialize" if era == Era::Legacy => self.initialize(&request).await,
            "server/discover" if era == Era::Modern => self.discover(request.client).await,
            "ping" if era == Era::Legacy => Ok(RawJson::EMPTY_OBJECT),
            // The modern era has no such methods, whatever the server behind may still know.
            "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
                if era == Era::Modern =>
            {
                Err(method_not_found(request.method))
            }
            "tools/list" => self.list(&request, Kind::Tool).await,
            "prompts/list" => self.list(&request, Kind::Prompt).await,
            "resources/list" => self.list(&request, Kind::Resource).await,
            "resources/templates/list" => self.list(&request, Kind::Template).await,
            "tools/call" | "prompts/get" | "resources/read" | "completion/complete" => {
                self.pass(request).await
            }
            "resources/subscribe" if era == Era::Legacy => self.subscribe(&request).await,
            "resources/unsubscribe" if era == Era::Legacy => self.unsubscribe(&request).await,
            "logging/setLevel" if era == Era::Legacy => self.set_level(&request).await,
            "subscriptions/listen" if era == Era::Modern => self.listen(&request).await,
            "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update" => self.pass_task(request).await,
            // The modern era has no such list.
            "tasks/list" if era == Era::Modern => Err(method_not_found(request.method)),
            "tasks/list" => match request.client.scope.clone() {
                Scope::Server(name) => self.list_tasks_of(&name, request).await,
                Scope::Union => self.list_tasks(&request).await,
            },
            _other => match request.client.scope.clone() {
                Scope::Server(name) => self.pass_unknown(&name, request).await,
                Scope::Union => Err(method_not_found(request.method)),
            },
        }
    }
}
