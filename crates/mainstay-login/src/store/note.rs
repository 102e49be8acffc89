//! The file that says how the others are protected. It is not a secret.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{LoginStoreError, StoreProtection, key};

#[derive(Serialize, Deserialize)]
pub(super) struct ProtectionNote {
    version: u32,
    protection: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    key_command: Vec<String>,
}

impl ProtectionNote {
    pub(super) const NAME: &'static str = "protection";

    pub(super) fn bytes(protection: &StoreProtection) -> Vec<u8> {
        let (key_file, key_command) = match protection {
            StoreProtection::Plain => (None, Vec::new()),
            StoreProtection::KeyFile(path) => (Some(key::absolute(path)), Vec::new()),
            StoreProtection::KeyCommand(words) => (None, words.clone()),
        };
        let note = Self {
            version: 1,
            protection: protection.as_str().to_owned(),
            key_file,
            key_command,
        };
        serde_json::to_vec(&note).unwrap_or_default()
    }

    /// The protection that a note names.
    pub(super) fn protection(bytes: &[u8], place: &Path) -> Result<StoreProtection, LoginStoreError> {
        let note: Option<Self> = serde_json::from_slice(bytes).ok();
        let unknown = |written: String| LoginStoreError::OtherProtection {
            place: place.to_owned(),
            written,
            wanted: "plain",
        };
        let note = note.ok_or_else(|| unknown("unknown".to_owned()))?;
        match (note.protection.as_str(), note.key_file) {
            ("plain", _) => Ok(StoreProtection::Plain),
            ("key_file", Some(path)) => Ok(StoreProtection::KeyFile(path)),
            ("key_command", _) if !note.key_command.is_empty() => {
                Ok(StoreProtection::KeyCommand(note.key_command))
            }
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
