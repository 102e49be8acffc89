//! The key of encrypted logins in the keyring of the system: an item of the Secret Service (gnome-keyring, KWallet, KeePassXC).
//!
//! Mainstay speaks D-Bus by itself, because it needs six calls and the crates for them number between 5, with a C library, and 59.
//! It asks no person to unlock a keyring: a daemon must not open windows.

#[cfg(all(feature = "keyring", not(target_os = "macos")))]
mod bus;
#[cfg(all(feature = "keyring", not(target_os = "macos")))]
mod secret_service;
#[cfg(all(feature = "keyring", not(target_os = "macos")))]
mod wire;

#[cfg(all(feature = "keyring", not(target_os = "macos")))]
pub(super) use self::secret_service::{make_key, read_key};

/// Why the keyring gave no key. No login is lost by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringFailure {
    /// The program cannot use a keyring.
    #[error(
        "this program was built without a system keyring (the cargo feature `keyring`; none on macOS); use one that has it, or `--key-command` with a command that asks the keyring"
    )]
    NotBuilt,
    /// No keyring answers.
    #[error(
        "no keyring answers on the session bus ({0}); use the desktop session that has it, or `--key-file` where there is none, as over SSH"
    )]
    Unreachable(String),
    /// The keyring is locked.
    #[error(
        "the keyring is locked; unlock it (by a login to the desktop, or in its own program) and try again"
    )]
    Locked,
    /// There is no keyring to keep a key in.
    #[error("the keyring has no default collection; make one in its own program, or use `--key-file`")]
    NoCollection,
    /// The keyring forgets its keys.
    #[error(
        "the default collection of the keyring forgets its keys when the session ends; choose another default, or use `--key-file`"
    )]
    Volatile,
    /// The key is not there.
    #[error(
        "the keyring does not hold the key of these logins (item `service=mainstay store={item}`); use the keyring that has it, or give the logins up: run `mainstay logout` for each server, then `mainstay login SERVER --keyring`"
    )]
    Missing {
        /// The value of the attribute `store`.
        item: String,
    },
    /// The keyring gave something else than a key.
    #[error("the item `service=mainstay store={item}` of the keyring is no key of 32 bytes")]
    NoKey {
        /// The value of the attribute `store`.
        item: String,
    },
    /// The keyring refused.
    #[error("the keyring refused: {0}")]
    Refused(String),
}

#[cfg(not(all(feature = "keyring", not(target_os = "macos"))))]
pub(super) fn read_key(_item: &str) -> Result<[u8; super::key::KEY_LENGTH], KeyringFailure> {
    Err(KeyringFailure::NotBuilt)
}

#[cfg(not(all(feature = "keyring", not(target_os = "macos"))))]
pub(super) fn make_key(_item: &str) -> Result<[u8; super::key::KEY_LENGTH], KeyringFailure> {
    Err(KeyringFailure::NotBuilt)
}
