//! A store of files: `LOGIN.login` and `ISSUER.registration` in one directory, the locks beside them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use mainstay_oauth::Registration;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::folder::PrivateFolder;
use super::lock::{FileLock, lock_file};
use super::note::ProtectionNote;
use super::seal::Sealer;
use super::watch::DirectoryWatcher;
use super::{
    LoginKey, LoginStore, LoginStoreError, ReadLogin, STORED_LOGIN_VERSION, StoreDescription, StoreLock,
    StoreProtection, StoreVersion, StoreWatch, StoredLogin,
};

const LOGIN: &str = ".login";
const REGISTRATION: &str = ".registration";

/// How long a write waits for the lock that orders the writes of one file. Each holder writes one small file.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Logins as files of mode 0600 in a directory of mode 0700.
pub struct FileStore {
    files: PrivateFolder,
    locks: PrivateFolder,
    /// How the files are protected, once it is known. Until the first login, any process may choose.
    chosen: OnceLock<ChosenProtection>,
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
        let sealer = Sealer::new(&protection)?;
        let turn = store.write_turn(ProtectionNote::NAME)?;
        if let Some(bytes) = store.files.read(ProtectionNote::NAME)? {
            let checked = ProtectionNote::check(&bytes, &protection, store.files.path());
            if checked.is_err() {
                if !store.files.names(LOGIN)?.is_empty() {
                    return Err(checked.err().unwrap_or(LoginStoreError::Aborted));
                }
                // Without logins the choice is free. Registrations are sealed too, and are made again.
                for name in store.files.names(REGISTRATION)? {
                    store.files.remove(&name)?;
                }
                store.note(&protection)?;
            }
        } else {
            store.note(&protection)?;
        }
        drop(turn);
        let _ = store.chosen.set(ChosenProtection { protection, sealer });
        Ok(store)
    }

    /// Opens the store in a directory with the protection that was chosen for it; plain if none was.
    pub fn open_as_chosen(directory: &Path) -> Result<Self, LoginStoreError> {
        let store = Self::open_undecided(directory)?;
        store.chosen()?;
        Ok(store)
    }

    fn open_undecided(directory: &Path) -> Result<Self, LoginStoreError> {
        Ok(Self {
            files: PrivateFolder::open(directory)?,
            locks: PrivateFolder::open(&directory.join("locks"))?,
            chosen: OnceLock::new(),
            watcher: OnceLock::new(),
        })
    }

    /// How the files are protected; `None` until the first login chooses.
    fn chosen(&self) -> Result<Option<&ChosenProtection>, LoginStoreError> {
        if let Some(chosen) = self.chosen.get() {
            return Ok(Some(chosen));
        }
        let Some(bytes) = self.files.read(ProtectionNote::NAME)? else {
            return Ok(None);
        };
        let protection = ProtectionNote::protection(&bytes, self.files.path())?;
        let sealer = Sealer::new(&protection)?;
        let chosen = ChosenProtection { protection, sealer };
        Ok(Some(self.chosen.get_or_init(|| chosen)))
    }

    /// The same for a write. The first login without a choice is kept plain.
    fn choose(&self) -> Result<&Sealer, LoginStoreError> {
        if self.chosen()?.is_none() {
            let _turn = self.write_turn(ProtectionNote::NAME)?;
            if self.files.read(ProtectionNote::NAME)?.is_none() {
                self.note(&StoreProtection::Plain)?;
            }
        }
        let chosen = self.chosen()?.ok_or(LoginStoreError::Changed)?;
        Ok(&chosen.sealer)
    }

    fn note(&self, protection: &StoreProtection) -> Result<(), LoginStoreError> {
        self.files
            .write(ProtectionNote::NAME, &ProtectionNote::bytes(protection))
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
            protection: self
                .chosen
                .get()
                .map_or("plain", |chosen| chosen.protection.as_str()),
        }
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
