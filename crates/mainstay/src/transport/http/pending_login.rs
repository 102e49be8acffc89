//! A login that a person completes, as a provider of credentials offers it.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

/// A login, being begun.
pub type BeginningLogin<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn PendingLogin>, ServerLoginError>> + Send + 'a>>;

/// The end of a login, being waited for.
pub type FinishingLogin<'a> =
    Pin<Box<dyn Future<Output = Result<LoginSummary, ServerLoginError>> + Send + 'a>>;

/// The check of a pasted address. An error says why the address is refused.
pub type PastingAddress<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A login that waits for a person. Dropping it gives the login up.
pub trait PendingLogin: fmt::Debug + Send + 'static {
    /// The address that the person opens in a browser. It carries no secret. `None` if no person is needed.
    fn address(&self) -> Option<&str>;

    /// Takes the address that the browser was redirected to, if the browser runs on another machine and cannot load it. The
    /// login goes on waiting after a refusal.
    ///
    /// Cancel safety: dropped, the address is either taken or not.
    fn paste<'a>(&'a self, address: &'a str) -> PastingAddress<'a>;

    /// Waits until the login is complete and saved.
    ///
    /// Cancel safety: dropping it changes nothing; the login goes on.
    fn finished(&mut self) -> FinishingLogin<'_>;
}

/// What a completed login is good for. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoginSummary {
    /// The issuer.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// When the access token expires.
    pub expires_at: Option<SystemTime>,
    /// Whether the login can be renewed without a person.
    pub renewable: bool,
}

impl LoginSummary {
    /// A login at this issuer, without scopes, which does not expire and cannot be renewed.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            scopes: Vec::new(),
            expires_at: None,
            renewable: false,
        }
    }
}

/// A login to a server that was not begun or not completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerLoginError {
    /// The server is not reached over HTTP, or it has no provider of credentials that can log in.
    #[error(
        "this server has no logins: it is not reached over HTTP, has a token of its own, or logins are off"
    )]
    NotOffered,
    /// The login failed.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}
