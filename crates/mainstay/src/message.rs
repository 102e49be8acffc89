//! JSON-RPC messages over raw JSON, for whoever stands between a client and a server.
//!
//! A message is read no deeper than its envelope, and written around payloads that stay as they came. What a gateway
//! need not read, it does not parse.

pub use crate::large::{INLINE_LIMIT, process as process_payload};
pub use crate::wire::write::{notification, refusal, request, response, response_in_pieces};
pub use crate::wire::{MAX_MEMBERS, Message, Object, Params, RawJson, RpcError, TooManyMembers};
