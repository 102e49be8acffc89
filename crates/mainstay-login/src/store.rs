//! Where logins and registrations are kept.
//!
//! A [`LoginStore`] holds one login for each server address, issuer and user. Its writes compare and swap, and a lock of
//! each login lets one process at a time refresh it. [`FileStore`] keeps files; another store can take its place.

mod files;
mod folder;
mod key;
mod keyring;
mod lock;
mod note;
mod seal;
mod watch;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay_oauth::{LoginRecord, Registration};
use ring::rand::SecureRandom;
use serde::{Deserialize, Serialize};
use url::Url;

pub use self::files::FileStore;
pub use self::keyring::KeyringFailure;
pub use self::seal::StoreProtection;
pub use self::watch::StoreWatch;

/// The version of [`StoredLogin`].
pub const STORED_LOGIN_VERSION: u32 = 1;

/// A login as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredLogin {
    /// The version of this form, [`STORED_LOGIN_VERSION`].
    pub version: u32,
    /// Names this login. A refresh keeps it, another login has another one.
    pub id: String,
    /// The tokens, and what a refresh needs.
    pub record: LoginRecord,
    /// When the person logged in, in milliseconds since 1970.
    pub logged_in_at: u64,
    /// When the access token was received, in milliseconds since 1970.
    pub obtained_at: u64,
    /// Why the login ended, if it did. Its tokens are not used any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Why the last refresh failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What the server said when it refused the access token, if it did and nothing has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl StoredLogin {
    /// A login that was just completed.
    pub fn new(record: LoginRecord, now: SystemTime) -> Result<Self, mainstay_oauth::NoRandomness> {
        let now = unix_millis(now);
        Ok(Self {
            version: STORED_LOGIN_VERSION,
            id: random_id()?,
            record,
            logged_in_at: now,
            obtained_at: now,
            ended: None,
            last_error: None,
            refused: None,
        })
    }

    /// The same login with a renewed record.
    pub fn renewed(&self, record: LoginRecord, now: SystemTime) -> Self {
        Self {
            record,
            obtained_at: unix_millis(now),
            ended: None,
            last_error: None,
            refused: None,
            ..self.clone()
        }
    }
}

/// Whose logins are meant: one server address and, if there is more than one person, one user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoginKey {
    /// The address of the MCP server.
    pub server: Url,
    /// The user.
    pub user: Option<String>,
}

/// The state of a stored login that a write expects to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreVersion(pub(crate) [u8; 32]);

/// A login and the state it was read in.
#[derive(Clone, Debug)]
pub struct ReadLogin {
    /// The login.
    pub login: StoredLogin,
    /// What a write that replaces it expects.
    pub version: StoreVersion,
}

/// Held while a login is refreshed. Dropping it lets the next process in.
pub trait StoreLock: Send {}

/// Keeps logins and registrations. All methods may block for a short time; callers run them on threads for blocking work.
pub trait LoginStore: Send + Sync + 'static {
    /// The logins of a key, one for each issuer.
    fn logins(&self, key: &LoginKey) -> Result<Vec<ReadLogin>, LoginStoreError>;

    /// Every login.
    fn all_logins(&self) -> Result<Vec<ReadLogin>, LoginStoreError>;

    /// Writes a login in place of the expected state, `None` for no login. Any other state is left as it is, and the
    /// write fails with [`LoginStoreError::Changed`].
    fn replace(&self, login: &StoredLogin, expected: Option<&StoreVersion>) -> Result<(), LoginStoreError>;

    /// Removes a login.
    fn remove(&self, login: &StoredLogin) -> Result<(), LoginStoreError>;

    /// Removes all logins of a key, those that cannot be read included.
    fn remove_all(&self, key: &LoginKey) -> Result<(), LoginStoreError>;

    /// Locks the logins of a key against other processes and tasks, and waits for the lock.
    fn lock(&self, key: &LoginKey, within: Duration) -> Result<Box<dyn StoreLock>, LoginStoreError>;

    /// Every registration.
    fn registrations(&self) -> Result<Vec<Registration>, LoginStoreError>;

    /// Keeps a registration in place of the last one of its issuer and kind.
    fn save_registration(&self, registration: &Registration) -> Result<(), LoginStoreError>;

    /// Forgets a registration that its issuer does not accept any more.
    fn forget_registration(&self, issuer: &str, client_id: &str) -> Result<(), LoginStoreError>;

    /// A watch for changes by any process. Changes after this call are seen.
    fn watch(&self) -> StoreWatch;

    /// How secrets are protected, and where they are, for a person.
    fn describe(&self) -> StoreDescription;
}

/// Where a store keeps its logins, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDescription {
    /// The directory.
    pub place: String,
    /// `plain`, `key_file`, `key_command` or `keyring`.
    pub protection: &'static str,
}

/// A store that cannot do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginStoreError {
    /// A file or directory cannot be used.
    #[error("the login store cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another user could read or replace a file.
    #[error("{path} {fault}; a login is not kept there (make it yours alone: chmod {mode} {path})")]
    Unsafe {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: &'static str,
        /// The mode it should have.
        mode: &'static str,
    },
    /// A file cannot be understood.
    #[error(
        "{path} holds no login that can be read ({reason}); run `mainstay logout` for its server, or remove the file"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Another process replaced the login meanwhile.
    #[error("another process changed this login meanwhile")]
    Changed,
    /// Another process holds the lock for too long.
    #[error(
        "another process has held the lock {path} for more than {} s; it may be stopped (end it, or try again)", within.as_secs()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long the process waited for the lock.
        within: Duration,
    },
    /// The key cannot be used.
    #[error("the key file {path} cannot be used: {reason}")]
    Key {
        /// The key file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The command that prints the key failed.
    #[error("the command `{command}`, which prints the key of the logins, failed: {reason}")]
    KeyCommand {
        /// The program.
        command: String,
        /// Why it failed.
        reason: String,
    },
    /// The keyring of the system gave no key.
    #[error(transparent)]
    Keyring(#[from] KeyringFailure),
    /// The store is protected in another way than this process wants.
    #[error(
        "the logins in {place} are kept with the protection `{written}`, not `{wanted}`; use the same setting, or log out of all servers first"
    )]
    OtherProtection {
        /// The directory.
        place: PathBuf,
        /// How they are kept.
        written: String,
        /// How this process would keep them.
        wanted: &'static str,
    },
    /// The task that did the work is gone.
    #[error("the login store did not answer")]
    Aborted,
}

/// A name that no other store or login has.
fn random_id() -> Result<String, mainstay_oauth::NoRandomness> {
    let mut id = [0; 16];
    let filled = ring::rand::SystemRandom::new().fill(&mut id);
    filled.map_err(|_unspecified| mainstay_oauth::NoRandomness)?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Milliseconds since 1970. A clock before 1970 counts as 1970.
pub(crate) fn unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
