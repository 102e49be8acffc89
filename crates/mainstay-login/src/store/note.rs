//! The file that says how the others are protected. It is not a secret.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::key::{self, KeySource};
use super::{LoginStoreError, StoreProtection};

#[derive(Serialize, Deserialize)]
pub(super) struct ProtectionNote {
    version: u32,
    protection: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    key_command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyring_item: Option<String>,
}

impl ProtectionNote {
    pub(super) const NAME: &'static str = "protection";

    pub(super) fn bytes(source: &KeySource) -> Vec<u8> {
        let mut note = Self {
            version: 1,
            protection: source.protection().as_str().to_owned(),
            key_file: None,
            key_command: Vec::new(),
            keyring_item: None,
        };
        match source {
            KeySource::Nothing => {}
            KeySource::File(path) => note.key_file = Some(key::absolute(path)),
            KeySource::Command(words) => note.key_command.clone_from(words),
            KeySource::Keyring(item) => note.keyring_item = Some(item.clone()),
        }
        serde_json::to_vec(&note).unwrap_or_default()
    }

    /// The key that a note names.
    pub(super) fn source(bytes: &[u8], place: &Path) -> Result<KeySource, LoginStoreError> {
        let note: Option<Self> = serde_json::from_slice(bytes).ok();
        let unknown = |written: String| LoginStoreError::OtherProtection {
            place: place.to_owned(),
            written,
            wanted: "plain",
        };
        let note = note.ok_or_else(|| unknown("unknown".to_owned()))?;
        match (note.protection.as_str(), note.key_file, note.keyring_item) {
            ("plain", _, _) => Ok(KeySource::Nothing),
            ("key_file", Some(path), _) => Ok(KeySource::File(path)),
            ("key_command", _, _) if !note.key_command.is_empty() => Ok(KeySource::Command(note.key_command)),
            ("keyring", _, Some(item)) => Ok(KeySource::Keyring(item)),
            _other => Err(unknown(note.protection)),
        }
    }

    /// Checks that a note names the same protection. The key may be at another place by now.
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
