//! Encryption of the files of a store.
//!
//! The key is 32 bytes in a file of its own, which belongs where the logins are not: on another disk, or in a secret
//! volume. The name of the file is bound to its content, so that files cannot be exchanged.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::LoginStoreError;
use super::folder::read_private;

const KEY_LENGTH: usize = 32;

/// How the files of a [`FileStore`](super::FileStore) are protected, beside their mode 0600.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreProtection {
    /// Not at all: whoever reads the files has the logins.
    #[default]
    Plain,
    /// Encrypted with the key in this file: 32 bytes, or the same in base64.
    KeyFile(PathBuf),
}

impl StoreProtection {
    /// The protection as one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::KeyFile(_) => "key_file",
        }
    }
}

/// Turns texts into the bytes of files, and back.
pub(super) enum Sealer {
    Plain,
    Key(Box<LessSafeKey>),
}

/// The form of an encrypted file.
#[derive(Serialize, Deserialize)]
struct Sealed {
    version: u32,
    nonce: String,
    sealed: String,
}

const SEALED_VERSION: u32 = 1;

impl Sealer {
    pub(super) fn new(protection: &StoreProtection) -> Result<Self, LoginStoreError> {
        let path = match protection {
            StoreProtection::Plain => return Ok(Self::Plain),
            StoreProtection::KeyFile(path) => path,
        };
        let bad = |reason: &str| LoginStoreError::Key {
            path: path.clone(),
            reason: reason.to_owned(),
        };
        let bytes = read_private(path)?.ok_or_else(|| {
            bad("it is not there; make one with `head -c 32 /dev/urandom > FILE; chmod 600 FILE`")
        })?;
        let key = key_of(&bytes).ok_or_else(|| bad("it holds neither 32 bytes nor their base64"))?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key);
        let key = key.map_err(|_unspecified| bad("it is no key"))?;
        Ok(Self::Key(Box::new(LessSafeKey::new(key))))
    }

    pub(super) fn seal(&self, name: &str, text: &[u8]) -> Result<Vec<u8>, String> {
        let key = match self {
            Self::Plain => return Ok(text.to_vec()),
            Self::Key(key) => key,
        };
        let mut nonce = [0; NONCE_LEN];
        let filled = SystemRandom::new().fill(&mut nonce);
        filled.map_err(|_unspecified| "the system gave no random numbers".to_owned())?;
        let mut sealed = text.to_vec();
        let bound = Aad::from(name.as_bytes());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut sealed)
            .map_err(|_unspecified| "it cannot be encrypted".to_owned())?;
        let file = Sealed {
            version: SEALED_VERSION,
            nonce: STANDARD.encode(nonce),
            sealed: STANDARD.encode(sealed),
        };
        serde_json::to_vec(&file).map_err(|error| error.to_string())
    }

    pub(super) fn open(&self, name: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let key = match self {
            Self::Plain => return Ok(bytes.to_vec()),
            Self::Key(key) => key,
        };
        let not_sealed = || "it is not encrypted".to_owned();
        let file: Sealed = serde_json::from_slice(bytes).map_err(|_error| not_sealed())?;
        if file.version != SEALED_VERSION {
            return Err(format!("it is of version {}", file.version));
        }
        let nonce = STANDARD.decode(&file.nonce).map_err(|_error| not_sealed())?;
        let nonce = Nonce::try_assume_unique_for_key(&nonce).map_err(|_unspecified| not_sealed())?;
        let mut sealed = STANDARD.decode(&file.sealed).map_err(|_error| not_sealed())?;
        let opened = key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut sealed);
        let opened =
            opened.map_err(|_unspecified| "the key does not fit, or the file was changed".to_owned())?;
        Ok(opened.to_vec())
    }
}

fn key_of(bytes: &[u8]) -> Option<[u8; KEY_LENGTH]> {
    if let Ok(key) = bytes.try_into() {
        return Some(key);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// The file that says how the others are protected. It is not a secret.
#[derive(Serialize, Deserialize)]
pub(super) struct ProtectionNote {
    pub(super) version: u32,
    pub(super) protection: String,
}

impl ProtectionNote {
    pub(super) const NAME: &'static str = "protection";

    pub(super) fn check(bytes: &[u8], wanted: &StoreProtection, place: &Path) -> Result<(), LoginStoreError> {
        let note: Option<Self> = serde_json::from_slice(bytes).ok();
        let written = note.map_or_else(|| "unknown".to_owned(), |note| note.protection);
        if written == wanted.as_str() {
            return Ok(());
        }
        Err(LoginStoreError::OtherProtection {
            place: place.to_owned(),
            written,
            wanted: wanted.as_str(),
        })
    }
}
