//! Serves many MCP servers as one MCP endpoint that stays up whatever the servers behind it do.
//!
//! A [`Gateway`] stands on a [`Fleet`](mainstay::Fleet), which keeps the servers connected, and faces clients of both
//! eras at its doors. The walk of a request: a `door` takes it and knows how to answer its client, the `desk` says what
//! the answer is, the fleet asks the server. What the gateway need not read, it does not parse.
//!
//! Invariants: a client never waits for a server that its request does not need; what a server asks reaches the client
//! whose request caused it, or nobody; whatever a client can make grow has a bound.

mod budget;
mod client;
mod door;
mod failure;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gateway;
mod introduction;
mod isolation;
mod principal;
mod protocol;
mod router;
mod scope;

pub use door::{ClientInput, DoorError, HttpDoor};
pub use gateway::{Gateway, GatewayBuilder};
pub use scope::Scope;
