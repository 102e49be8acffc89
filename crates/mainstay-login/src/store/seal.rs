//! Encryption of the files of a store.
//!
//! The key is 32 bytes that belong where the logins are not: on another disk, in a secret volume, in a keyring. The name of the file is bound to its content, so that files cannot be exchanged.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::LoginStoreError;
use super::key::KEY_LENGTH;

/// How the files of a [`FileStore`](super::FileStore) are protected, beside their mode 0600.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreProtection {
    /// Not at all: a reader of the files has the logins.
    #[default]
    Plain,
    /// Encrypted with the key in this file: 32 bytes, or the same in base64.
    KeyFile(PathBuf),
    /// Encrypted with the key that this command prints, in the same forms: a program and its arguments, such as
    /// `secret-tool lookup service mainstay`.
    KeyCommand(Vec<String>),
    /// Encrypted with a key in the keyring of the system. The store makes the key when this protection is chosen. It needs the
    /// cargo feature `keyring` and a Secret Service.
    Keyring,
}

impl StoreProtection {
    /// The protection as one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::KeyFile(_) => "key_file",
            Self::KeyCommand(_) => "key_command",
            Self::Keyring => "keyring",
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
    pub(super) fn new(key: Option<[u8; KEY_LENGTH]>) -> Result<Self, LoginStoreError> {
        let Some(key) = key else {
            return Ok(Self::Plain);
        };
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key);
        let key = key.map_err(|_unspecified| LoginStoreError::Aborted)?;
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
