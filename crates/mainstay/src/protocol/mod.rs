//! The protocol's two eras, and how a server's era is found out.
//!
//! Legacy servers open with `initialize` and keep a session; modern ones are stateless and describe themselves when
//! asked with `server/discover`. The client begins with `initialize`: a server that speaks both eras gets a session, in which nothing is
//! lost. If the server refuses, the client continues with `server/discover`. A server that loses one session after another is
//! asked with `server/discover` first.

mod extensions;
mod greeting;
mod handshake;
mod introduction;

pub(crate) use extensions::ClientExtensions;
pub use greeting::Era;
pub(crate) use greeting::{Capability, Dialect, Greeting};
pub(crate) use handshake::{Approach, HandshakeError, discover_beside, greet};
pub use introduction::Introduction;
pub(crate) use introduction::{LOG_LEVEL_KEY, RequestMeta, named};

/// The versions with `initialize`, newest first. The first is the one asked for.
pub(crate) const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The stateless versions, newest first.
pub(crate) const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];
