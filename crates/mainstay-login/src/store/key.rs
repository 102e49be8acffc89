//! Where the key of encrypted logins comes from: the keyring of the system, a file, or a command.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::folder::read_private;
use super::{LoginStoreError, StoreProtection, keyring};

pub(super) const KEY_LENGTH: usize = 32;

/// How long a command may take. A keyring that is locked, and asks a person who is not there, must not hold the program up.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The most that a command may print. A key in base64 has 44 characters.
const OUTPUT_LIMIT: u64 = 4096;

/// What a store encrypts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// Nothing: the store is not encrypted.
    Nothing,
    /// The key in a file.
    File(PathBuf),
    /// The key that a command prints.
    Command(Vec<String>),
    /// The key in this item of the keyring.
    Keyring(String),
}

impl KeySource {
    /// The protection that this key gives.
    pub(super) fn protection(&self) -> StoreProtection {
        match self {
            Self::Nothing => StoreProtection::Plain,
            Self::File(path) => StoreProtection::KeyFile(path.clone()),
            Self::Command(words) => StoreProtection::KeyCommand(words.clone()),
            Self::Keyring(_) => StoreProtection::Keyring,
        }
    }

    /// The key; `None` if the store is not encrypted. May take ten seconds.
    pub(super) fn key(&self) -> Result<Option<[u8; KEY_LENGTH]>, LoginStoreError> {
        match self {
            Self::Nothing => Ok(None),
            Self::File(path) => from_file(path).map(Some),
            Self::Command(words) => from_command(words).map(Some),
            Self::Keyring(item) => Ok(Some(keyring::read_key(item)?)),
        }
    }
}

/// The key in a file.
fn from_file(path: &Path) -> Result<[u8; KEY_LENGTH], LoginStoreError> {
    let bad = |reason: &str| LoginStoreError::Key {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let bytes = read_private(path)?.ok_or_else(|| {
        bad("it is not there; make one with `head -c 32 /dev/urandom > FILE; chmod 600 FILE`")
    })?;
    key_of(&bytes).ok_or_else(|| bad("it holds neither 32 bytes nor their base64"))
}

/// The key that a command prints. No shell is involved.
fn from_command(words: &[String]) -> Result<[u8; KEY_LENGTH], LoginStoreError> {
    let failed = |reason: String| LoginStoreError::KeyCommand {
        command: words.first().cloned().unwrap_or_default(),
        reason,
    };
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| failed("it names no program".to_owned()))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| failed(format!("it cannot be started: {error}")))?;
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let output = child.stdout.take();
        let read = output.map(|output| output.take(OUTPUT_LIMIT).read_to_end(&mut bytes));
        let status = child.wait();
        // The receiver may have given up.
        let _ = sender.send((read.transpose().map(|_| bytes), status));
    });
    let Ok((printed, status)) = ended.recv_timeout(COMMAND_TIMEOUT) else {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let limit = COMMAND_TIMEOUT.as_secs();
        return Err(failed(format!(
            "it did not end within {limit} s; is the keyring locked?"
        )));
    };
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => {
            return Err(failed(format!(
                "it ended with {status}; is the keyring there, and does it hold the key?"
            )));
        }
        Err(error) => return Err(failed(error.to_string())),
    }
    let bytes = printed.unwrap_or_default();
    key_of(&bytes).ok_or_else(|| failed("it printed neither 32 bytes nor their base64".to_owned()))
}

pub(super) fn key_of(bytes: &[u8]) -> Option<[u8; KEY_LENGTH]> {
    if let Ok(key) = bytes.try_into() {
        return Some(key);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// How a note names the source of the key.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
