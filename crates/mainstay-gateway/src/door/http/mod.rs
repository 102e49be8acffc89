//! The door for clients over HTTP: Streamable HTTP in both eras, and HTTP+SSE.
//!
//! The walk of a request: `listening` accepts its connection, `service` lets it in (`guard`, `wrong_tokens`, `rate`) and
//! finds out where it wants to go (`route`, `probe`), `post` reads the message. A `legacy` one belongs to one of the `sessions`, a `modern` one
//! stands alone; `answering` gives either its answer, on a `stream` where one body is not enough.
//!
//! Invariants: nothing here waits for a client that does not read; whatever a client can make grow has a bound; a
//! request that is refused is told why, and touches nobody else's.

mod access;
mod answering;
mod batch;
mod body;
mod guard;
mod head_timer;
mod headers;
mod legacy;
mod listening;
mod modern;
mod options;
mod peers;
mod post;
mod probe;
mod rate;
mod reading;
mod refusal;
mod route;
mod seldom;
mod service;
mod session;
mod sessions;
mod sse;
mod stream;
mod write_timeout;
mod wrong_tokens;

pub(super) use access::note_refused_line;
pub(crate) use guard::Caller;
#[cfg(any(test, fuzzing))]
pub(crate) use listening::fuzz;
pub use options::{DoorError, HttpDoor};
