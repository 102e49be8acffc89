//! Requests of the modern era beside a session: what a modern client of a gateway asks of a server that speaks both eras over HTTP.
//!
//! The session is for legacy clients, which need its channel back. A request of the modern era belongs to no session, so over HTTP
//! the same server takes it on the same connection, and a modern client has the server's own era: its questions under their own names and
//! several at once, its tasks and its extensions. On stdio one process speaks one era.
//!
//! A server that answers `initialize` and opens no session, as those on the TypeScript SDK 2 do, has its channel back in the modern era
//! alone. It gets every call in that era, and a legacy client is asked by the handler of its call.

use std::time::Duration;

use tokio::time::Instant;

use super::Connection;
use crate::protocol::{Dialect, Greeting, RequestMeta, discover_beside};
use crate::server::CallOptions;
use crate::wire::{Params, RequestError, RpcError};

/// How long a server may take to answer `server/discover` beside its session. The first listing waits for it.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// What is known of the modern era of a server that has a session.
pub(super) struct Beside {
    pub(super) meta: RequestMeta,
    pub(super) greeting: Greeting,
    /// Whether calls of legacy clients are requests of the modern era too, since there is no session.
    takes_all: bool,
}

impl Connection {
    /// Asks a server over Streamable HTTP, once for each connection, whether it takes requests of the modern era too. Returns whether it was
    /// found to do so now.
    ///
    /// Cancel safety: dropped, it is not known, and modern clients are served from the session.
    pub(crate) async fn look_beside(&self) -> bool {
        if self.dialect != Dialect::Legacy || self.beside.get().is_some() {
            return false;
        }
        let introduction = self.inbound.introduction();
        let until = Instant::now() + DISCOVER_TIMEOUT;
        let greeting = discover_beside(&self.peer, &introduction, until).await;
        let meta = introduction.to_meta();
        let beside = greeting.map(|greeting| Beside {
            meta,
            greeting,
            takes_all: self.peer.session().is_none(),
        });
        let is_found = beside.is_some();
        if self.beside.set(beside).is_err() || !is_found {
            return false;
        }
        let taken = self.inbound.next_listen();
        self.listen();
        taken.await;
        true
    }

    pub(super) fn beside(&self) -> Option<&Beside> {
        self.beside.get()?.as_ref()
    }

    /// What the server said of itself in the modern era, beside its session.
    pub(crate) fn greeting_beside(&self) -> Option<&Greeting> {
        Some(&self.beside()?.greeting)
    }

    /// Whether a modern client's request reaches the server as one.
    pub(crate) fn takes_modern_requests(&self) -> bool {
        self.meta.is_some() || self.greeting_beside().is_some()
    }

    /// The `_meta` of a call that the server takes as one of the modern era.
    pub(super) fn meta_beside(&self, call: &CallOptions) -> Option<&RequestMeta> {
        let beside = self.beside()?;
        (call.is_modern || beside.takes_all).then_some(&beside.meta)
    }

    /// Refuses the retry of a modern client's request whose state no session knows: the server would ignore the state, and run the call
    /// from its start.
    pub(super) fn check_state(&self, params: &Params, call: &CallOptions) -> Result<(), RequestError> {
        if call.is_modern && !self.takes_modern_requests() && params.get("requestState").is_some() {
            let expired = "the request state is unknown or has expired: call again from the start";
            return Err(RequestError::Rpc(RpcError::new(
                RpcError::INVALID_PARAMS,
                expired,
            )));
        }
        Ok(())
    }
}
