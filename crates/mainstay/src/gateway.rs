//! What only a gateway needs: a program that stands between MCP clients and servers and passes requests on.
//!
//! An embedder that calls tools needs none of this. [`ServerExt`] adds to [`Server`] what passes on foreign requests and
//! notifications, and what answers a client before its server is up. [`message`] reads and writes raw JSON-RPC messages.
//! The functions change what is common to all calls of a fleet: how it introduces itself, and what catalog a client sees.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstay_lifecycle::Generation;
use tokio::time::{Instant, timeout_at};

pub use crate::catalog::servers::{ChangedServer, ListHashes, ServerLists};
pub use crate::plain_text::PlainText;
pub use crate::protocol::Introduction;
pub use crate::server::counts::DurationHistogram;
pub use crate::server::operations::{OperationSeries, OperationTable, ToolPlaces};
pub use crate::wire::SentNote;

use crate::catalog::{About, Catalog};
use crate::config::ToolView;
use crate::connection::MAX_TASKS;
use crate::deadline;
use crate::event::Failure;
use crate::fleet::FleetBuilder;
use crate::protocol::MODERN_VERSIONS;
use crate::server::{
    CallError, CallErrorKind, CallOptions, NotConnected, Reason, Repeatable, Reply, Request, Server, Status,
    tool_name,
};
use crate::wire::{Params, RawJson, RequestError};

/// JSON-RPC messages over raw JSON.
///
/// A message is read no deeper than its envelope, and written around payloads that stay as they came.
pub mod message {
    pub use crate::large::{INLINE_LIMIT, process as process_payload};
    pub use crate::wire::write::{notification, refusal, request, response, response_in_pieces};
    pub use crate::wire::{MAX_MEMBERS, Message, Object, Params, RawJson, RpcError, TooManyMembers};
}

/// Introduces another client to the servers than the fleet would by itself: the one that it speaks for. It replaces
/// [`FleetBuilder::capabilities`] and [`FleetBuilder::client`]. The store keeps what such clients see apart, by their name
/// and capabilities.
#[must_use]
pub fn introduced_as(fleet: FleetBuilder, introduction: Introduction) -> FleetBuilder {
    fleet.introduced_as(introduction)
}

/// Returns a modern server's request for input to the caller as the result that it is. The caller repeats the request with
/// the input. Without this, the call's handler answers.
#[must_use]
pub fn hand_on_input_required(mut options: CallOptions) -> CallOptions {
    options.hand_on_input = true;
    options
}

/// The request of a modern client, which itself answers a server's request for input. A server that speaks both eras takes it as one of the
/// modern era.
#[must_use]
pub fn of_modern_client(options: CallOptions) -> CallOptions {
    let mut options = hand_on_input_required(options);
    options.is_modern = true;
    options
}

/// Notes there whether the call may have run, for a gateway that has to cut it: it drops the call and still answers its client.
#[must_use]
pub fn note_sent(mut options: CallOptions, note: &SentNote) -> CallOptions {
    options.sent = Some(note.clone());
    options
}

/// Passes each line that is written for the call through `keep` before it is queued. It returns the same bytes, to which it may attach
/// what it holds for them: they are dropped once the server has the line, or the call was given up.
#[must_use]
pub fn keep_line(
    mut options: CallOptions,
    keep: impl Fn(Bytes) -> Bytes + Send + Sync + 'static,
) -> CallOptions {
    options.keeps_line = Some(Arc::new(keep));
    options
}

/// Whether requests of this method change nothing, so that one which may have run can be sent again.
pub fn only_reads(method: &str) -> bool {
    matches!(
        method,
        "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "prompts/get"
            | "resources/read"
            | "completion/complete"
            | "tasks/get"
            | "tasks/list"
            | "ping"
    )
}

/// What these servers offer together, each as the catalog beside its name has it. A server that its catalog does not have is
/// left out. For a gateway that shows each client other servers. The revision of the result means nothing.
pub fn catalog_of<'a>(parts: impl IntoIterator<Item = (&'a str, &'a Catalog)>) -> Catalog {
    Catalog::of(parts)
}

/// The lists of this server in a catalog; `None` when nothing of the server is published there.
pub fn server_lists(catalog: &Catalog, server: &str) -> Option<ServerLists> {
    catalog.lists(server)
}

/// The servers that are not the same in two catalogs, sorted by name. For catalogs of one fleet this costs a comparison of pointers for
/// each server, and more only for those that changed in between.
pub fn changed_servers<'a>(before: &'a Catalog, now: &'a Catalog) -> Vec<ChangedServer<'a>> {
    now.changed_since(before)
}

/// Why a server was not sent a notification.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// There is no connection that it could belong to.
    #[error("not sent: {0}")]
    NotConnected(Box<NotConnected>),
    /// The server does not read what it was sent before, and the queue is full.
    #[error("not sent: server {server} does not read what is queued for it")]
    Full {
        /// The server.
        server: Arc<str>,
        /// The connection.
        generation: Generation,
    },
}

/// What a gateway asks of a server beyond the calls of an embedder.
pub trait ServerExt {
    /// Passes a request on as it is, names included, whatever capabilities the server declares. The method says whether the
    /// request may be replayed when it may have run: listing, getting, reading and completing may; a tool may as it is
    /// hinted; nothing else.
    ///
    /// Parameters that were parsed on the way are not parsed again, and edits are applied as they are written.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    fn forward(
        &self,
        method: &str,
        params: impl Into<Params> + Send,
        options: CallOptions,
    ) -> impl Future<Output = Result<Reply, CallError>> + Send;

    /// Sends a notification on the live connection; the parameters pass as they are. Returns the connection once the
    /// notification is queued: at once if there is room, otherwise when there is, within this time. A call that is made
    /// afterwards goes out after it, where the transport keeps an order.
    ///
    /// A notification belongs to a connection. Without one it is not kept for the next, and it wakes no server. It does not
    /// count as use of the server, which may be stopped for idleness. Mainstay itself sends `notifications/initialized` and
    /// `notifications/cancelled`.
    ///
    /// Cancel safety: when it is dropped before it is ready, nothing is sent.
    fn notify(
        &self,
        method: &str,
        params: Option<&RawJson>,
        within: Duration,
    ) -> impl Future<Output = Result<Generation, NotifyError>> + Send;

    /// Adds extensions that a client of the gateway declares (`capabilities.extensions`) to those that the server receives. The server
    /// receives them with its next connection, also after a restart if catalogs are kept on disk; settings of one extension that
    /// several clients declare are joined.
    fn declare_extensions(&self, declared: &RawJson);

    /// Asks the server to report on a task, on this connection and on every one after it, until the task has ended. Its
    /// `notifications/tasks` go to the fleet's handler.
    ///
    /// Returns whether the server has agreed. Only modern servers can; poll every other task with `tasks/get`. While the
    /// server is not connected, the interest is kept for the next connection. It is dropped if the server does not agree.
    ///
    /// Cancel safety: dropped, the interest is kept.
    fn follow_task(&self, id: &str) -> impl Future<Output = Result<bool, CallError>> + Send;

    /// Follows a task no longer. Has no effect on one that has ended.
    fn unfollow_task(&self, id: &str);

    /// The same JSON as a recording shows it: the server's secrets are replaced by their names.
    fn redacted(&self, json: String) -> String;

    /// What the server says of itself. Returns at once if that is known; otherwise waits while the server is starting. Fails
    /// as soon as an attempt to start it has failed, and if none is under way.
    ///
    /// Cancel safety: dropping it changes nothing.
    fn wait_introduced(&self, within: Duration)
    -> impl Future<Output = Result<Arc<About>, CallError>> + Send;

    /// Waits until the server has been listed, in this process or an earlier one. Returns and fails as
    /// [`wait_introduced`](Self::wait_introduced) does; a failed listing is a failure too.
    ///
    /// Cancel safety: dropping it changes nothing.
    fn wait_listed(&self, within: Duration) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Whether a modern client's request reaches the server as one: it has no session, or takes such requests beside it. Without a
    /// connection, whether it did when it was last listed.
    fn takes_modern_requests(&self) -> bool;

    /// How the configuration shows the server's tools.
    fn view(&self) -> Arc<ToolView>;

    /// How long a call waits for the server's connection by default.
    fn wait_timeout(&self) -> Duration;

    /// How many calls may wait for the server's connection; `None` while it is connected, and no call waits.
    fn waiters(&self) -> Option<usize>;
}

impl ServerExt for Server {
    async fn forward(
        &self,
        method: &str,
        params: impl Into<Params> + Send,
        mut options: CallOptions,
    ) -> Result<Reply, CallError> {
        let params = params.into();
        if method == "tools/call" {
            check_shown(self, &params)?;
        }
        let repeatable = match method {
            "tools/call" => Repeatable::AsHinted,
            method if only_reads(method) => Repeatable::Always,
            _other => Repeatable::Never,
        };
        let mut request = Request {
            method: Cow::Borrowed(method),
            params,
            repeatable,
            needs: None,
        };
        self.0.call(&mut request, &mut options).await
    }

    async fn notify(
        &self,
        method: &str,
        params: Option<&RawJson>,
        within: Duration,
    ) -> Result<Generation, NotifyError> {
        let not_connected = || NotifyError::NotConnected(Box::new(self.0.not_connected()));
        let connection = self.0.current.load_full().ok_or_else(not_connected)?;
        let generation = connection.generation;
        let queued = connection.peer.notify(method, params, deadline::within(within));
        match queued.await {
            Ok(()) => Ok(generation),
            Err(RequestError::TimedOut { .. }) => Err(NotifyError::Full {
                server: self.0.name.clone(),
                generation,
            }),
            Err(
                RequestError::Lost { .. }
                | RequestError::Cancelled { .. }
                | RequestError::Rpc(_)
                | RequestError::BadAnswer(_)
                | RequestError::Send(_),
            ) => Err(not_connected()),
        }
    }

    fn declare_extensions(&self, declared: &RawJson) {
        let is_new = self.0.change_interests(|interests| {
            let before = interests.extensions.clone();
            interests.extensions.add(declared);
            interests.extensions != before
        });
        if is_new {
            self.0.inbox.extensions_declared();
        }
    }

    async fn follow_task(&self, id: &str) -> Result<bool, CallError> {
        let is_kept = self.0.change_interests(|interests| {
            if interests.tasks.len() < MAX_TASKS {
                interests.tasks.insert(id.to_owned());
            }
            interests.tasks.contains(id)
        });
        if !is_kept {
            let kind = CallErrorKind::TooManySubscriptions { limit: MAX_TASKS };
            return Err(CallError::not_sent(&self.0.name, kind));
        }
        let Some(connection) = self.0.current.load_full() else {
            return Ok(false);
        };
        if !connection.takes_modern_requests() {
            self.0.change_interests(|interests| {
                interests.tasks.remove(id);
            });
            return Ok(false);
        }
        Ok(connection.follow(id).await)
    }

    fn unfollow_task(&self, id: &str) {
        let was_followed = self.0.change_interests(|interests| interests.tasks.remove(id));
        if !was_followed {
            return;
        }
        if let Some(connection) = self.0.current.load_full() {
            // In a session alone this does nothing.
            connection.listen();
        }
    }

    fn redacted(&self, json: String) -> String {
        self.0.settings.load().redaction().apply_to_json(json)
    }

    async fn wait_introduced(&self, within: Duration) -> Result<Arc<About>, CallError> {
        wait_while_starting(self, within, || self.about()).await
    }

    async fn wait_listed(&self, within: Duration) -> Result<(), CallError> {
        wait_while_starting(self, within, || self.catalog().map(|_| ())).await
    }

    fn takes_modern_requests(&self) -> bool {
        if let Some(connection) = self.0.current.load_full() {
            return connection.takes_modern_requests();
        }
        let about = self.about().unwrap_or_default();
        let is_modern = |version: &str| MODERN_VERSIONS.contains(&version);
        about.modern_capabilities.is_some() || about.protocol_version.as_deref().is_some_and(is_modern)
    }

    fn view(&self) -> Arc<ToolView> {
        self.0.settings.load().view.clone()
    }

    fn wait_timeout(&self) -> Duration {
        self.0.settings.load().wait_timeout()
    }

    fn waiters(&self) -> Option<usize> {
        let is_connected = self.0.current.load().is_some();
        (!is_connected).then(|| self.0.settings.load().waiters() as usize)
    }
}

/// Refuses a call of a tool that is hidden. The name is read only where the configuration hides any.
fn check_shown(server: &Server, params: &Params) -> Result<(), CallError> {
    let settings = server.0.settings.load();
    if !settings.view.hides() {
        return Ok(());
    }
    let tool = tool_name(params);
    if settings.view.admits(&tool) {
        return Ok(());
    }
    Err(CallError::not_sent(
        &server.0.name,
        CallErrorKind::Hidden { tool },
    ))
}

/// Waits until `find` finds something, while the server is starting and no longer than its attempt lasts.
async fn wait_while_starting<T>(
    server: &Server,
    within: Duration,
    find: impl Fn() -> Option<T>,
) -> Result<T, CallError> {
    let began = Instant::now();
    let deadline = deadline::after(began, within);
    let mut status = server.watch();
    let before = status.borrow().last_error.clone();
    loop {
        // Read first: the keeper updates the status last.
        let seen = status.borrow_and_update().clone();
        if let Some(found) = find() {
            return Ok(found);
        }
        let is_idle = seen.reason == Some(Reason::Idle);
        if has_failed(&seen, before.as_ref()) || !(seen.is_starting() || is_idle) {
            return Err(NotConnected::from(&*seen).into());
        }
        server.0.wake_if_resting(&seen);
        if !matches!(timeout_at(deadline, status.changed()).await, Ok(Ok(()))) {
            return Err(server.0.wait_timed_out(began));
        }
    }
}

/// Whether an attempt has failed since the server was seen with the failure `before`.
fn has_failed(seen: &Status, before: Option<&Arc<Failure>>) -> bool {
    let last = seen.last_error.as_ref();
    last.is_some_and(|last| !before.is_some_and(|before| Arc::ptr_eq(before, last)))
}
