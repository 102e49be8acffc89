//! A store of files: `LOGIN.login` and `ISSUER.registration` in one directory, the locks beside them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mainstay_oauth::Registration;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::folder::PrivateFolder;
use super::key::{KEY_LENGTH, KeySource};
use super::lock::{FileLock, lock_file};
use super::note::ProtectionNote;
use super::seal::Sealer;
use super::watch::DirectoryWatcher;
use super::{
    KeyringFailure, LoginKey, LoginStore, LoginStoreError, ReadLogin, STORED_LOGIN_VERSION, StoreDescription,
    StoreLock, StoreProtection, StoreVersion, StoreWatch, StoredLogin, keyring, random_id,
};

const LOGIN: &str = ".login";
const REGISTRATION: &str = ".registration";

/// How long a write waits for the lock that orders the writes of one file. Each holder writes one small file.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a process waits for one that chooses the protection, and asks the keyring meanwhile.
const CHOICE_LOCK_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a command or a keyring that failed is not asked again. A process may have many servers, and each asks.
const KEY_RETRY_INTERVAL: Duration = Duration::from_secs(5);

type ChosenKey = (KeySource, Option<[u8; KEY_LENGTH]>);

/// Logins as files of mode 0600 in a directory of mode 0700.
pub struct FileStore {
    files: PrivateFolder,
    locks: PrivateFolder,
    /// How the files are protected, once it is known. Until the first login, any process may choose.
    chosen: OnceLock<ChosenProtection>,
    /// When the key could not be had, and why.
    failed_key: Mutex<Option<(Instant, LoginStoreError)>>,
    watcher: OnceLock<DirectoryWatcher>,
}

struct ChosenProtection {
    protection: StoreProtection,
    sealer: Sealer,
}

impl FileStore {
    /// Opens the store in a directory, and makes it if it is not there. The protection holds for all processes: it can only be
    /// another one than before while there are no logins.
    pub fn open(directory: &Path, protection: StoreProtection) -> Result<Self, LoginStoreError> {
        let store = Self::open_undecided(directory)?;
        let (source, key) = match protection {
            StoreProtection::Plain => store.choose_source(KeySource::Nothing)?,
            StoreProtection::KeyFile(path) => store.choose_source(KeySource::File(path))?,
            StoreProtection::KeyCommand(words) => store.choose_source(KeySource::Command(words))?,
            StoreProtection::Keyring => store.choose_keyring()?,
        };
        let sealer = Sealer::new(key)?;
        let protection = source.protection();
        let _ = store.chosen.set(ChosenProtection { protection, sealer });
        Ok(store)
    }

    /// Opens the store in a directory with the protection that was chosen for it; plain if none was. It asks for the key when it
    /// needs it: a keyring that is locked now can be unlocked later.
    pub fn open_as_chosen(directory: &Path) -> Result<Self, LoginStoreError> {
        Self::open_undecided(directory)
    }

    fn open_undecided(directory: &Path) -> Result<Self, LoginStoreError> {
        Ok(Self {
            files: PrivateFolder::open(directory)?,
            locks: PrivateFolder::open(&directory.join("locks"))?,
            chosen: OnceLock::new(),
            failed_key: Mutex::default(),
            watcher: OnceLock::new(),
        })
    }

    fn choose_source(&self, source: KeySource) -> Result<ChosenKey, LoginStoreError> {
        // A command may take long, so it runs without the lock.
        let key = source.key()?;
        let _turn = self.choice_turn()?;
        if self.may_choose(&source.protection())? {
            self.note(&source)?;
        }
        Ok((source, key))
    }

    /// The key in the keyring. It is made under the lock, so that no two processes make one.
    fn choose_keyring(&self) -> Result<ChosenKey, LoginStoreError> {
        let _turn = self.choice_turn()?;
        if !self.may_choose(&StoreProtection::Keyring)?
            && let Some(source) = self.noted()?
        {
            match source.key() {
                // Without logins nothing is lost with the key.
                Err(LoginStoreError::Keyring(KeyringFailure::Missing { .. })) if !self.has_logins()? => {}
                key => return Ok((source, key?)),
            }
        }
        let item = random_id().map_err(|_none| LoginStoreError::Aborted)?;
        let key = keyring::make_key(&item)?;
        let source = KeySource::Keyring(item);
        self.note(&source)?;
        Ok((source, Some(key)))
    }

    /// Whether this protection has to be written down. It fails if there are logins with another one. The lock is held.
    fn may_choose(&self, protection: &StoreProtection) -> Result<bool, LoginStoreError> {
        let Some(bytes) = self.files.read(ProtectionNote::NAME)? else {
            return Ok(true);
        };
        let Err(other) = ProtectionNote::check(&bytes, protection, self.files.path()) else {
            return Ok(false);
        };
        if self.has_logins()? {
            return Err(other);
        }
        Ok(true)
    }

    fn has_logins(&self) -> Result<bool, LoginStoreError> {
        Ok(!self.files.names(LOGIN)?.is_empty())
    }

    /// The key that is written down; `None` if no protection was chosen yet.
    fn noted(&self) -> Result<Option<KeySource>, LoginStoreError> {
        let bytes = self.files.read(ProtectionNote::NAME)?;
        bytes
            .map(|bytes| ProtectionNote::source(&bytes, self.files.path()))
            .transpose()
    }

    /// How the files are protected; `None` until the first login chooses. It fails if the key cannot be had, and asks again later.
    fn chosen(&self) -> Result<Option<&ChosenProtection>, LoginStoreError> {
        if let Some(chosen) = self.chosen.get() {
            return Ok(Some(chosen));
        }
        let Some(source) = self.noted()? else {
            return Ok(None);
        };
        // One thread asks for the key; the others use what it got.
        let mut failed = self.failed_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chosen) = self.chosen.get() {
            return Ok(Some(chosen));
        }
        if let Some((at, failure)) = &*failed
            && at.elapsed() < KEY_RETRY_INTERVAL
            && let Some(failure) = copy_of_key_failure(failure)
        {
            return Err(failure);
        }
        match source.key() {
            Ok(key) => {
                let sealer = Sealer::new(key)?;
                let protection = source.protection();
                let chosen = ChosenProtection { protection, sealer };
                Ok(Some(self.chosen.get_or_init(|| chosen)))
            }
            Err(failure) => {
                *failed = copy_of_key_failure(&failure).map(|failure| (Instant::now(), failure));
                Err(failure)
            }
        }
    }

    /// The same for a write. The first login without a choice is kept plain.
    fn choose(&self) -> Result<&Sealer, LoginStoreError> {
        if self.chosen()?.is_none() {
            let _turn = self.choice_turn()?;
            if self.files.read(ProtectionNote::NAME)?.is_none() {
                self.note(&KeySource::Nothing)?;
            }
        }
        let chosen = self.chosen()?.ok_or(LoginStoreError::Changed)?;
        Ok(&chosen.sealer)
    }

    /// Writes the choice down. There are no logins. Registrations are encrypted with another key, and are made again.
    fn note(&self, source: &KeySource) -> Result<(), LoginStoreError> {
        for name in self.files.names(REGISTRATION)? {
            self.files.remove(&name)?;
        }
        self.files
            .write(ProtectionNote::NAME, &ProtectionNote::bytes(source))
    }

    fn read_login(&self, name: &str) -> Result<Option<ReadLogin>, LoginStoreError> {
        let Some(bytes) = self.files.read(name)? else {
            return Ok(None);
        };
        let login: StoredLogin = self.parse(name, &bytes)?;
        if login.version != STORED_LOGIN_VERSION {
            let reason = format!("it is of version {}, which a newer program wrote", login.version);
            return Err(self.unreadable(name, reason));
        }
        Ok(Some(ReadLogin {
            login,
            version: version_of(&bytes),
        }))
    }

    fn parse<T: DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T, LoginStoreError> {
        let text = match self.chosen()? {
            Some(chosen) => chosen.sealer.open(name, bytes),
            None => Ok(bytes.to_vec()),
        };
        let text = text.map_err(|reason| self.unreadable(name, reason))?;
        // A message of the parser could repeat a part of a token.
        serde_json::from_slice(&text).map_err(|error| {
            let reason = format!("no such JSON at line {} column {}", error.line(), error.column());
            self.unreadable(name, reason)
        })
    }

    fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<(), LoginStoreError> {
        let sealer = self.choose()?;
        let sealed = serde_json::to_vec_pretty(value)
            .map_err(|error| error.to_string())
            .and_then(|text| sealer.seal(name, &text))
            .map_err(|reason| self.unreadable(name, reason))?;
        self.files.write(name, &sealed)
    }

    fn choice_turn(&self) -> Result<FileLock, LoginStoreError> {
        let name = format!("{}.write", ProtectionNote::NAME);
        lock_file(&self.locks.join(&name), CHOICE_LOCK_TIMEOUT)
    }

    fn write_turn(&self, name: &str) -> Result<FileLock, LoginStoreError> {
        lock_file(&self.locks.join(&format!("{name}.write")), WRITE_LOCK_TIMEOUT)
    }

    fn unreadable(&self, name: &str, reason: String) -> LoginStoreError {
        let path: PathBuf = self.files.join(name);
        LoginStoreError::Unreadable { path, reason }
    }
}

impl LoginStore for FileStore {
    fn logins(&self, key: &LoginKey) -> Result<Vec<ReadLogin>, LoginStoreError> {
        let prefix = key_name(key);
        let names = self.files.names(LOGIN)?;
        let mut logins = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(&prefix)) {
            logins.extend(self.read_login(name)?.filter(|read| is_of(&read.login, key)));
        }
        Ok(logins)
    }

    fn all_logins(&self) -> Result<Vec<ReadLogin>, LoginStoreError> {
        // Without the key, no file can be read, and that is no fault of the files.
        self.chosen()?;
        let mut logins = Vec::new();
        for name in self.files.names(LOGIN)? {
            match self.read_login(&name) {
                Ok(read) => logins.extend(read),
                // One broken file hides no other login.
                Err(error) => tracing::warn!(%error, "a stored login is passed over"),
            }
        }
        Ok(logins)
    }

    fn replace(&self, login: &StoredLogin, expected: Option<&StoreVersion>) -> Result<(), LoginStoreError> {
        let name = login_name(login);
        let _turn = self.write_turn(&name)?;
        let found = self.files.read(&name)?.map(|bytes| version_of(&bytes));
        if found.as_ref() != expected {
            return Err(LoginStoreError::Changed);
        }
        self.write(&name, login)
    }

    fn remove(&self, login: &StoredLogin) -> Result<(), LoginStoreError> {
        let name = login_name(login);
        let _turn = self.write_turn(&name)?;
        self.files.remove(&name)
    }

    fn remove_all(&self, key: &LoginKey) -> Result<(), LoginStoreError> {
        let prefix = key_name(key);
        let names = self.files.names(LOGIN)?;
        for name in names.iter().filter(|name| name.starts_with(&prefix)) {
            let _turn = self.write_turn(name)?;
            self.files.remove(name)?;
        }
        Ok(())
    }

    fn lock(&self, key: &LoginKey, within: Duration) -> Result<Box<dyn StoreLock>, LoginStoreError> {
        let path = self.locks.join(&format!("{}.refresh", key_name(key)));
        Ok(Box::new(lock_file(&path, within)?))
    }

    fn registrations(&self) -> Result<Vec<Registration>, LoginStoreError> {
        self.chosen()?;
        let mut registrations = Vec::new();
        for name in self.files.names(REGISTRATION)? {
            let read = self.files.read(&name);
            let parsed = read.and_then(|bytes| bytes.map(|bytes| self.parse(&name, &bytes)).transpose());
            match parsed {
                Ok(found) => registrations.extend(found),
                Err(error) => tracing::warn!(%error, "a stored registration is passed over"),
            }
        }
        Ok(registrations)
    }

    fn save_registration(&self, registration: &Registration) -> Result<(), LoginStoreError> {
        let name = registration_name(registration);
        let _turn = self.write_turn(&name)?;
        self.write(&name, registration)
    }

    fn forget_registration(&self, issuer: &str, client_id: &str) -> Result<(), LoginStoreError> {
        let is_meant = |found: &&Registration| found.issuer == issuer && found.client_id == client_id;
        for found in self.registrations()?.iter().filter(is_meant) {
            let name = registration_name(found);
            let _turn = self.write_turn(&name)?;
            self.files.remove(&name)?;
        }
        Ok(())
    }

    fn watch(&self) -> StoreWatch {
        self.watcher
            .get_or_init(|| DirectoryWatcher::start(self.files.path()))
            .watch()
    }

    fn describe(&self) -> StoreDescription {
        StoreDescription {
            place: self.files.path().display().to_string(),
            protection: match self.chosen.get() {
                Some(chosen) => chosen.protection.as_str(),
                None => match self.noted() {
                    Ok(noted) => noted.map_or("plain", |source| source.protection().as_str()),
                    Err(_unreadable) => "unknown",
                },
            },
        }
    }
}

/// The same failure once more. Failures that cost nothing to find out are not kept.
fn copy_of_key_failure(failure: &LoginStoreError) -> Option<LoginStoreError> {
    match failure {
        LoginStoreError::KeyCommand { command, reason } => Some(LoginStoreError::KeyCommand {
            command: command.clone(),
            reason: reason.clone(),
        }),
        LoginStoreError::Keyring(failure) => Some(LoginStoreError::Keyring(failure.clone())),
        LoginStoreError::Io { .. }
        | LoginStoreError::Unsafe { .. }
        | LoginStoreError::Unreadable { .. }
        | LoginStoreError::Changed
        | LoginStoreError::Locked { .. }
        | LoginStoreError::Key { .. }
        | LoginStoreError::OtherProtection { .. }
        | LoginStoreError::Aborted => None,
    }
}

fn is_of(login: &StoredLogin, key: &LoginKey) -> bool {
    login.record.is_for(&key.server) && login.record.user == key.user
}

fn key_name(key: &LoginKey) -> String {
    hash(&[key.server.as_str(), key.user.as_deref().unwrap_or_default()])
}

fn login_name(login: &StoredLogin) -> String {
    let record = &login.record;
    let key = hash(&[record.server.as_str(), record.user.as_deref().unwrap_or_default()]);
    format!("{key}-{}{LOGIN}", hash(&[&record.issuer]))
}

/// Clients with a redirect URI and clients without one serve different grants.
fn registration_name(registration: &Registration) -> String {
    let kind = match &registration.redirect_uri {
        Some(_) => "code",
        None => "device",
    };
    format!("{}-{kind}{REGISTRATION}", hash(&[&registration.issuer]))
}

/// A name for a file. Each part is preceded by its length, so that no two lists share a name.
fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize()[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn version_of(bytes: &[u8]) -> StoreVersion {
    StoreVersion(Sha256::digest(bytes).into())
}
