//! The credentials of a request.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use std::{fmt, io};

use http::HeaderValue;
use tokio::sync::watch;

use super::challenge::Challenge;
use crate::config::ServerConfig;

/// The value of an `Authorization` header, being looked up.
pub type Authorizing<'a> = Pin<Box<dyn Future<Output = io::Result<Option<HeaderValue>>> + Send + 'a>>;

/// Completes when a credential changes.
pub type Changing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The handling of a refusal.
pub type Refusing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A request that the server refused, with 401 or with a 403 that asks for more scopes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CredentialRefusal {
    /// The value of `Authorization` that the request carried.
    pub authorization: Option<HeaderValue>,
    /// 401 or 403.
    pub status: u16,
    /// What the server asks for.
    pub challenge: Challenge,
}

/// Gives each request the credential of the moment, so that one that was renewed is used from the next request on.
///
/// It is asked once for each request, and by one request of a server at a time: a provider that has to fetch something
/// and keeps it fetches it once, however many requests wait for it.
pub trait Credentials: Send + Sync + 'static {
    /// The whole value of `Authorization`, or `None` to send the request without. An error fails the request before
    /// it leaves. A value that is to be kept out of logs is marked with `HeaderValue::set_sensitive`.
    fn authorization(&self) -> Authorizing<'_>;

    /// The server refused a request. The transport awaits this, for 30 s at most, then asks for the credential again, and
    /// repeats the request once if the credential is another one. A provider that can renew its credential does so
    /// here; one that needs a person returns at once. Requests that run side by side are refused side by side, so a
    /// provider compares the refused credential with the one it has now. The default does nothing.
    fn refused<'a>(&'a self, _refusal: &'a CredentialRefusal) -> Refusing<'a> {
        Box::pin(std::future::ready(()))
    }

    /// Names the login that the credential belongs to. Catalogs on disk are kept apart by it, so that a person never
    /// sees what a server showed to another one. It may read a small file. The default is `None`: the provider
    /// serves one person, or the owner is unknown.
    fn owner(&self) -> Option<String> {
        None
    }

    /// Comes back when the credential is another than the one last given out. It brings back a server that asked for
    /// a login. The default never does: such a server waits for [`Server::logged_in`](crate::Server::logged_in).
    fn changed(&self) -> Changing<'_> {
        Box::pin(std::future::pending())
    }

    /// Comes back when requests had a credential and have none any more, as after a logout. A connected server is then
    /// dialled again without it, and the running calls of its old connection end. The default never does.
    fn withdrawn(&self) -> Changing<'_> {
        Box::pin(std::future::pending())
    }

    /// Begins a login with a person, up to where the person is needed. The default is `None`: there is nothing to log in to.
    ///
    /// Cancel safety: dropping the future gives the login up.
    fn login(&self) -> Option<BeginningLogin<'_>> {
        None
    }

    /// Begins a login for which the client registers itself again at the authorization server, which has forgotten it. The default is
    /// [`login`](Self::login), for providers that register no client.
    ///
    /// Cancel safety: dropping the future gives the login up.
    fn login_as_new_client(&self) -> Option<BeginningLogin<'_>> {
        self.login()
    }
}

/// Finds the providers of servers that have no credential in their configuration: the logins of a person, for example.
pub trait CredentialSource: Send + Sync + 'static {
    /// The provider of a server, if it has one. For the same configuration it is the same object each time, so that a
    /// configuration that is applied again changes nothing.
    fn provider(&self, server: &ServerConfig) -> Option<Arc<dyn Credentials>>;
}

/// A bearer token that can be exchanged for another at any time; the next request uses it, and a server that refused the
/// old one is tried again.
#[derive(Debug)]
pub struct BearerToken {
    token: watch::Sender<Numbered>,
    /// The number of the token that was last given out.
    given: AtomicU64,
}

#[derive(Debug)]
struct Numbered {
    number: u64,
    /// `None` when no header can hold the token.
    value: Option<HeaderValue>,
}

impl BearerToken {
    /// A provider of this token.
    pub fn new(token: &str) -> Self {
        let token = Numbered {
            number: 1,
            value: bearer(token),
        };
        Self {
            token: watch::Sender::new(token),
            given: AtomicU64::new(0),
        }
    }

    /// Exchanges the token.
    pub fn set(&self, token: &str) {
        self.token.send_modify(|current| {
            current.number += 1;
            current.value = bearer(token);
        });
    }
}

impl Credentials for BearerToken {
    fn authorization(&self) -> Authorizing<'_> {
        let token = self.token.borrow();
        self.given.store(token.number, Ordering::Relaxed);
        let value = token.value.clone().map(Some).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the token holds a character that no header may hold",
            )
        });
        Box::pin(std::future::ready(value))
    }

    fn changed(&self) -> Changing<'_> {
        Box::pin(async {
            let mut token = self.token.subscribe();
            let given = || self.given.load(Ordering::Relaxed);
            // It cannot be closed: its sender is here.
            let _ = token.wait_for(|token| token.number != given()).await;
        })
    }
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A login, being begun.
pub type BeginningLogin<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn PendingLogin>, ServerLoginError>> + Send + 'a>>;

/// A future that completes when the login ends.
pub type FinishingLogin<'a> =
    Pin<Box<dyn Future<Output = Result<LoginSummary, ServerLoginError>> + Send + 'a>>;

/// The check of a pasted address. An error says why the address is refused.
pub type PastingAddress<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A login that waits for a person. Dropping it gives the login up.
pub trait PendingLogin: fmt::Debug + Send + 'static {
    /// The address that the person opens in a browser. It carries no secret. `None` if no person is needed.
    fn address(&self) -> Option<&str>;

    /// Whether the client registered itself before this login. If the authorization server has forgotten it, the browser says that the
    /// client is unknown, and [`Server::login_as_new_client`](crate::Server::login_as_new_client) helps. The default is `false`.
    fn reuses_registration(&self) -> bool {
        false
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_has_changed_when_it_is_not_the_one_last_given_out() {
        let token = BearerToken::new("one");
        assert_eq!(token.authorization().await.unwrap().unwrap(), "Bearer one");
        let soon = std::time::Duration::from_secs(1);
        assert!(
            tokio::time::timeout(soon, token.changed()).await.is_err(),
            "given out"
        );
        token.set("two");
        token.changed().await;
        token.changed().await;
        assert_eq!(token.authorization().await.unwrap().unwrap(), "Bearer two");
        assert!(
            tokio::time::timeout(soon, token.changed()).await.is_err(),
            "given out"
        );
    }

    #[tokio::test]
    async fn a_token_that_no_header_can_hold_fails_the_request_and_is_not_shown() {
        let token = BearerToken::new("se\ncret");
        let error = token.authorization().await.unwrap_err();
        assert!(!error.to_string().contains("cret"), "{error}");
        assert!(!format!("{token:?}").contains("cret"));
    }
}
