//! Streamable HTTP: every message is a POST of its own, answered by JSON or by a stream of events.
//!
//! It carries both eras, and learns from the messages which one it is in. A request that names its protocol version in
//! `_meta` belongs to no session and repeats its method and name in headers. An answered `initialize` opens a session: all
//! later messages carry its headers, its server speaks on a stream of its own (`listen`), and closing the transport
//! deletes it.
//!
//! `client` is all that needs an HTTP client; it is built with the cargo feature `http`. The types of failures, challenges
//! and credentials are always there. So is `Endpoint`: without the feature it cannot be made, and says why.

#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "the HTTP client uses all of it")
)]
mod backoff;
mod challenge;
#[cfg_attr(not(feature = "http"), path = "no_client.rs")]
pub(crate) mod client;
mod credentials;
mod failure;

pub use challenge::Challenge;
#[cfg(feature = "http")]
pub use client::{
    AddressCheck, FETCH_BODY_LIMIT, FETCH_TIMEOUT, FetchRequest, Fetched, Http, HttpOptions, fetch,
};
#[cfg(feature = "http")]
pub(crate) use client::{address, check_certificate, check_key, check_roots, header, is_loopback};
pub use credentials::{
    Authorizing, BearerToken, BeginningLogin, Changing, CredentialRefusal, CredentialSource, Credentials,
    FinishingLogin, LoginSummary, PastingAddress, PendingLogin, Refusing, ServerLoginError,
};
pub use failure::{HttpConfigError, HttpFailure, HttpStage};

pub(crate) use backoff::ReconnectBackoff;
#[cfg(feature = "http")]
use backoff::fraction;
pub(crate) use client::Endpoint;

/// Says which arguments of a call are repeated in `Mcp-Param-` headers; tools ask for it with `x-mcp-header`.
pub trait ParamHeaders: Send + Sync + 'static {
    /// The names after `Mcp-Param-` and their values, unencoded, for one call of a tool with these arguments (JSON).
    fn of_call(&self, tool: &str, arguments: &str) -> Vec<(String, String)>;
}
