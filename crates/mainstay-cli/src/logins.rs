//! The logins of this user: where they are kept, and which servers use them.

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::anyhow;
use mainstay::ServerConfig;
use mainstay::config::{OAuthSetting, Target};
use mainstay::transport::http::{CredentialSource, Credentials};
use mainstay_login::{FileStore, LoginProvider, Logins, StoreProtection, finish_renewals};

use crate::adhoc;
use crate::args::Common;
use crate::exit::CommandFailure;
use crate::load::{Setup, load_beside, set_path};
use crate::through_daemon::running_daemon;

/// How long the program waits at its end for a token that is being renewed. A refresh token whose answer is lost is lost too.
const RENEWAL_GRACE: Duration = Duration::from_secs(5);

/// The logins as a fleet asks for them. The store is opened when the first server over HTTP has no credential of its own.
#[derive(Debug)]
struct LazyLogins;

impl CredentialSource for LazyLogins {
    fn provider(&self, server: &ServerConfig) -> Option<Arc<dyn Credentials>> {
        let Target::Http(target) = server.target() else {
            return None;
        };
        if target.has_credentials() || *target.oauth() == OAuthSetting::Off {
            return None;
        }
        match logins() {
            Ok(logins) => CredentialSource::provider(logins, server),
            Err(error) => {
                tracing::warn!(server = server.name(), %error, "the server is used without a login");
                None
            }
        }
    }
}

/// Where fleets get the logins of this user from.
pub(crate) fn source() -> Arc<dyn CredentialSource> {
    Arc::new(LazyLogins)
}

static LOGINS: OnceLock<Result<Logins, String>> = OnceLock::new();

/// The logins of this process.
pub(crate) fn logins() -> Result<&'static Logins, &'static str> {
    let opened = LOGINS.get_or_init(|| open(None).map_err(|error| format!("{error:#}")));
    opened.as_ref().map_err(String::as_str)
}

/// Chooses how logins are protected. It comes before the first use of [`logins`].
pub(crate) fn protect_with(protection: StoreProtection) -> Result<(), CommandFailure> {
    let opened = open(Some(protection)).map_err(CommandFailure::failed)?;
    let _ = LOGINS.set(Ok(opened));
    Ok(())
}

fn open(protection: Option<StoreProtection>) -> anyhow::Result<Logins> {
    let directory =
        directory().ok_or_else(|| anyhow!("neither MAINSTAY_LOGINS nor HOME says where logins are kept"))?;
    let named = || set_path("MAINSTAY_LOGIN_KEY_FILE").map(StoreProtection::KeyFile);
    let store = match protection.or_else(named) {
        Some(protection) => FileStore::open(&directory, protection)?,
        None => FileStore::open_as_chosen(&directory)?,
    };
    Ok(Logins::new(Arc::new(store)))
}

/// `MAINSTAY_LOGINS`, or `mainstay/logins` in the user's state directory.
fn directory() -> Option<PathBuf> {
    set_path("MAINSTAY_LOGINS").or_else(|| {
        let base = set_path("XDG_STATE_HOME").filter(|path| path.is_absolute());
        let base = base.or_else(|| set_path("HOME").map(|home| home.join(".local/state")))?;
        Some(base.join("mainstay/logins"))
    })
}

/// Waits for renewals that are under way. Called before the program ends.
pub(crate) async fn finish() {
    if !finish_renewals(RENEWAL_GRACE).await {
        tracing::warn!("a login is still being renewed; it may have to be made again");
    }
}

/// The servers that `mainstay status` and failed calls say to log in to: those of the daemon's configuration, unless another is named.
pub(crate) fn configured(common: &Common) -> Result<Setup, CommandFailure> {
    let daemon = running_daemon().filter(|daemon| !daemon.config_missing);
    load_beside(daemon.as_ref(), common)
}

/// The server of this name in the configuration, or the server at this address.
pub(crate) fn server_named(named: &str, common: &Common) -> Result<ServerConfig, CommandFailure> {
    if !named.contains("://") {
        let mut setup = configured(common)?;
        setup.keep(&[named.to_owned()])?;
        let server = setup.servers.into_iter().next();
        return server.ok_or_else(|| CommandFailure::usage(anyhow!("no server is called {named}")));
    }
    // A configured server with this address may have settings for its login.
    let configured = env::current_dir().ok().and_then(|_| configured(common).ok());
    let is_at = |server: &ServerConfig| match server.target() {
        Target::Http(target) => target.url().value() == named,
        _ => false,
    };
    match configured.and_then(|setup| setup.servers.into_iter().find(is_at)) {
        Some(server) => Ok(server),
        None => adhoc::of_address(named, None, None, None),
    }
}

/// The provider of a server's login.
pub(crate) fn provider_of(server: &ServerConfig) -> Result<Arc<LoginProvider>, CommandFailure> {
    let logins = logins().map_err(|error| CommandFailure::failed(anyhow!("{error}")))?;
    logins.provider(server).map_err(CommandFailure::usage)
}
