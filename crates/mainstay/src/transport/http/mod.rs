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
mod config_error;
mod credentials;
mod failure;
mod param_headers;
mod pending_login;

pub use challenge::Challenge;
#[cfg(feature = "http")]
pub use client::{
    AddressCheck, FETCH_BODY_LIMIT, FETCH_TIMEOUT, FetchRequest, Fetched, Http, HttpConnector, HttpOptions,
    fetch,
};
#[cfg(feature = "http")]
pub(crate) use client::{address, check_certificate, check_key, check_roots, header, is_loopback};
pub use config_error::HttpConfigError;
pub use credentials::{
    Authorizing, BearerToken, Changing, CredentialRefusal, CredentialSource, Credentials, Refusing,
};
pub use failure::{HttpFailure, HttpStage};
pub use param_headers::ParamHeaders;
pub use pending_login::{
    BeginningLogin, FinishingLogin, LoginSummary, PastingAddress, PendingLogin, ServerLoginError,
};

pub(crate) use backoff::ReconnectBackoff;
#[cfg(feature = "http")]
use backoff::fraction;
pub(crate) use client::Endpoint;
