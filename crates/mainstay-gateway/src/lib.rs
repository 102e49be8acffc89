//! Serves many MCP servers as one MCP endpoint that stays up whatever the servers behind it do.
//!
//! A [`Gateway`] stands on a [`Fleet`](mainstay::Fleet), which keeps the servers connected, and faces clients of both
//! eras at its doors. A `door` takes a request and knows how to answer its client, the `router` finds the answer, and the fleet asks
//! the server. The gateway does not parse what it need not read.
//!
//! Invariants: a client never waits for a server that its request does not need; a server's request reaches the client
//! whose call caused it, or no client; whatever a client can make grow has a bound.

mod answer_kind;
mod budget;
mod client;
mod door;
mod failure;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gateway;
mod isolation;
mod lock;
mod observer;
mod principal;
mod protocol;
mod router;
mod scope;
mod sessions;

pub use door::{
    ClientInput, DoorAddress, DoorError, DoorTokens, HttpDoor, HttpListener, HttpMount, MountBody, StreamEnd,
    TokenChanges,
};
pub use gateway::{Gateway, GatewayBuilder};
pub use observer::GatewayCounts;
pub use router::ServerWait;
pub use scope::Scope;
pub use sessions::{DoorKind, RunningInfo, SessionInfo};
