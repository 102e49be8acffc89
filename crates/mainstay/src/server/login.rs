//! Logs in to a server on behalf of a person.

use super::Server;
use crate::config::Target;
use crate::transport::http::{PendingLogin, ServerLoginError};

impl Server {
    /// Begins a login with the server's provider of credentials, up to where a person is needed: the result has the address to
    /// open, and completes when the person has logged in. The server is then tried again at once.
    ///
    /// The crate `mainstay-login` has providers that log in with OAuth.
    ///
    /// Cancel safety: dropping it gives the login up.
    pub async fn login(&self) -> Result<Box<dyn PendingLogin>, ServerLoginError> {
        let provider = {
            let settings = self.0.settings.load();
            match settings.config().target() {
                Target::Http(target) => target.provider().cloned(),
                Target::Stdio(_) | Target::Custom(_) => None,
            }
        };
        let beginning = provider.as_ref().and_then(|provider| provider.login());
        match beginning {
            Some(beginning) => beginning.await,
            None => Err(ServerLoginError::NotOffered),
        }
    }
}
