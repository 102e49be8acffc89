//! What a request is allowed in with.

use std::future::Future;
use std::io;
use std::pin::Pin;

use reqwest::header::HeaderValue;

/// The value of an `Authorization` header, being looked up.
pub type Authorizing<'a> = Pin<Box<dyn Future<Output = io::Result<Option<HeaderValue>>> + Send + 'a>>;

/// Gives each request the credential of the moment, so that one that was renewed is used from the next request on.
///
/// It is asked once for each request, from many tasks at once: a provider that has to fetch something makes the others
/// wait for the one fetch.
pub trait Credentials: Send + Sync + 'static {
    /// The whole value of `Authorization`, or `None` to send the request without. An error fails the request before
    /// it leaves. A value that is to be kept out of logs is marked with `HeaderValue::set_sensitive`.
    fn authorization(&self) -> Authorizing<'_>;
}
