//! The client side: what tests put in front of a gateway.
//!
//! An [`Ask`] is one HTTP request as it is on the wire, and a [`Reply`] its answer, read event by event. A [`Session`] is a
//! legacy client; [`modern`] makes the requests of a modern one. All reach the gateway through a [`Peer`]: a port of this
//! machine, or a [`MemoryPort`], which works in paused time.

mod peer;
mod session;
mod wire;

pub use peer::{Connection, MemoryListener, MemoryPort, Peer, Stream};
pub use session::{Session, initialize, modern, request, text};
pub use wire::{Ask, Event, LONG, Reply};
