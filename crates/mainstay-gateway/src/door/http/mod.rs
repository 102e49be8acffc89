//! The door for clients over HTTP: Streamable HTTP in both eras, and HTTP+SSE.
//!
//! The path of a request: `listener` accepts its connection within the `limits` and `timeouts`; `service` checks it
//! (`guard`) and finds its `route`; `head`, `body` and `post` read the message. A legacy request belongs to a `session`, a modern
//! one stands alone. `answer` answers either with one body, or with a `stream` of events. `response` writes both.
//!
//! Invariants: nothing here waits for a client that does not read. Everything that a client can make grow has a limit. A
//! refused request says why, and affects no other client.

mod answer;
mod body;
mod guard;
mod head;
mod limits;
mod listener;
mod mount;
mod options;
mod post;
mod response;
mod route;
mod service;
mod session;
mod stream;
mod timeouts;
mod tokens;

pub(crate) use guard::HttpCaller;
pub use listener::HttpListener;
#[cfg(any(test, fuzzing))]
pub(crate) use listener::fuzz;
pub use mount::{DoorAddress, HttpMount, MountBody};
pub use options::{DoorError, HttpDoor};
pub(super) use response::log_refused_line;
pub use tokens::{DoorTokens, TokenChanges};
