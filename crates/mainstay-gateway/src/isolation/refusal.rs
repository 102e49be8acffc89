//! Why a session gets no server of its own, in words that a person or a model can act on.

use mainstay::gateway::message::{RawJson, RpcError};
use serde_json::json;

use crate::protocol::{LEGACY_VERSIONS, MODERN_VERSIONS, SERVER_UNAVAILABLE, UNSUPPORTED_VERSION};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(
        "server {server} runs once for each session, and {most} such servers run already: it did not run. Call again when \
         another session has ended, or let `mainstay serve` have more of them (--max-isolated)"
    )]
    Full { server: String, most: usize },
    #[error(
        "server {server} runs once for each session, and this client has {most} such servers already: it \
         did not run. End another of its sessions first, or let `mainstay serve` have more of them for each client \
         (--max-isolated-per-client)"
    )]
    FullForClient { server: String, most: usize },
    #[error(
        "server {server} runs once for each session (its isolation is \"session\"), and a request of 2026-07-28 over HTTP \
         belongs to none: it did not run. Open a session with `initialize` (2025-11-25 or before), connect on stdin and \
         stdout, or set its isolation to \"shared\""
    )]
    NoSession { server: String },
    #[error(
        "everything here runs once for each session (isolation \"session\"), and requests of 2026-07-28 over HTTP belong to \
         none: open a session with `initialize` (2025-11-25 or before), connect on stdin and stdout, or set the isolation \
         to \"shared\""
    )]
    OnlySessions,
    #[error("server {server} is not started any more: the session has ended")]
    Ended { server: String },
    #[error("server {server} is not started any more: the gateway is being shut down")]
    Closing { server: String },
}

impl From<Refused> for RpcError {
    fn from(refused: Refused) -> Self {
        let words = refused.to_string();
        let (code, data) = match refused {
            Refused::Full { server, most } | Refused::FullForClient { server, most } => (
                SERVER_UNAVAILABLE,
                json!({ "mainstay": { "outcome": "not_sent", "server": server, "limit": most } }),
            ),
            Refused::Ended { server } | Refused::Closing { server } => (
                SERVER_UNAVAILABLE,
                json!({ "mainstay": { "outcome": "not_sent", "server": server } }),
            ),
            Refused::NoSession { server } => (
                Self::INVALID_REQUEST,
                json!({ "mainstay": { "outcome": "not_sent", "server": server } }),
            ),
            // A client that speaks both eras takes this for what it is, and opens a session.
            Refused::OnlySessions => (
                UNSUPPORTED_VERSION,
                json!({ "supported": LEGACY_VERSIONS, "requested": MODERN_VERSIONS[0] }),
            ),
        };
        let error = Self::new(code, words);
        match RawJson::from_value(&data) {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        }
    }
}
