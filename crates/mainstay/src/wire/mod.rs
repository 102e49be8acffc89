//! JSON-RPC over raw JSON: messages are read no deeper than their envelope.
//!
//! [`RawJson`] is a payload as it came; [`Object`] edits one level of it and leaves every other byte alone;
//! `envelope` tells what a received message is, `write` builds one to send. [`Peer`] is one end of a connection: it
//! numbers requests, matches answers to them, keeps their deadlines, and says of each one that failed whether it may
//! have run. It faces a server and a client alike.
//!
//! Invariants: a request ends exactly once; nothing the remote peer sends panics, hangs a request, or is queued without
//! a bound; no lock is held across an await or while foreign code runs.

mod envelope;
mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod object;
mod options;
mod params;
mod peer;
mod pending;
mod progress;
mod raw;
mod receive;
mod request;
mod rpc_error;
mod send_quota;
mod sent_note;
mod stats;
mod unreadable;
pub(crate) mod write;

pub use envelope::Message;
pub(crate) use envelope::{messages_of_batch, our_number};
pub(crate) use failure::RequestError;
pub use failure::{BadAnswer, Outcome, TimeoutKind};
pub use object::{MAX_MEMBERS, Object, TooManyMembers};
pub use raw::RawJson;
pub use rpc_error::RpcError;
pub use sent_note::SentNote;

pub(crate) use object::with_meta;
pub(crate) use options::{IdlePause, LineKeeper, RequestOptions};
pub(crate) use params::MetaEntries;
pub use params::Params;
pub(crate) use peer::{Handler, OutOfService, Peer};
pub(crate) use pending::{MessageOrigin, PendingRequest};
pub(crate) use progress::PROGRESS;
