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
use super::seal::{ProtectionNote, Sealer};
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
    sealer: Sealer,
    protection: StoreProtection,
    watcher: OnceLock<DirectoryWatcher>,
}

impl FileStore {
    /// Opens the store in a directory, and makes it if it is not there. The first process chooses the protection; the
    /// others must choose the same one.
    pub fn open(directory: &Path, protection: StoreProtection) -> Result<Self, LoginStoreError> {
        let files = PrivateFolder::open(directory)?;
        let locks = PrivateFolder::open(&directory.join("locks"))?;
        let sealer = Sealer::new(&protection)?;
        let store = Self {
            files,
            locks,
            sealer,
            protection,
            watcher: OnceLock::new(),
        };
        let turn = store.write_turn(ProtectionNote::NAME)?;
        match store.files.read(ProtectionNote::NAME)? {
            Some(bytes) => ProtectionNote::check(&bytes, &store.protection, store.files.path())?,
            None => {
                let note = ProtectionNote {
                    version: 1,
                    protection: store.protection.as_str().to_owned(),
                };
                let bytes = serde_json::to_vec(&note).unwrap_or_default();
                store.files.write(ProtectionNote::NAME, &bytes)?;
            }
        }
        drop(turn);
        Ok(store)
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
        let text = self.sealer.open(name, bytes);
        let text = text.map_err(|reason| self.unreadable(name, reason))?;
        // A message of the parser could repeat a part of a token.
        serde_json::from_slice(&text).map_err(|error| {
            let reason = format!("no such JSON at line {} column {}", error.line(), error.column());
            self.unreadable(name, reason)
        })
    }

    fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<(), LoginStoreError> {
        let sealed = serde_json::to_vec_pretty(value)
            .map_err(|error| error.to_string())
            .and_then(|text| self.sealer.seal(name, &text))
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
            protection: self.protection.as_str(),
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
