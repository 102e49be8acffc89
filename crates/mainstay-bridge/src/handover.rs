//! Lets a small program be the bridge.
//!
//! `mainstay` reads the command line and finds the daemon's place. Then the program `mainstay-bridge` beside it takes the place of its
//! process, and is given all of that in one variable. It holds a third of the memory: it has nothing of the daemon in it. Where it is
//! missing, `mainstay` is the bridge itself.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::bridge;
use crate::dial::{ConnectError, DaemonDialer};
use crate::hello::{ConnectRequest, VERSION};
use crate::launch::Launcher;
use crate::runtime_dir::{RuntimeDirError, RuntimeDirectory};

/// The program's file, beside `mainstay`.
const PROGRAM: &str = "mainstay-bridge";

/// The variable. It holds what the environment and the command line of this process hold already, secrets included.
const VARIABLE: &str = "MAINSTAY_BRIDGE";

/// What the program is given. Has no `Debug`: it holds secrets.
#[derive(Serialize, Deserialize)]
struct Handover {
    request: ConnectRequest,
    launcher: PathBuf,
    arguments: Vec<OsString>,
}

/// Why the program that took over is no bridge.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandoverError {
    /// It was not started by `mainstay connect`.
    #[error("this program is a part of Mainstay: run `mainstay connect`")]
    NotHanded,
    /// `mainstay` is of another version.
    #[error(
        "this `mainstay-bridge`, version {VERSION}, does not understand the `mainstay` that started it: install both programs from one release"
    )]
    OtherVersion,
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] RuntimeDirError),
    /// No daemon can be had.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Lets the program beside `mainstay` take the place of this process. Returns if it cannot: then this process is to be the bridge.
///
/// Its directory is found again from the same environment.
pub fn hand_over(mainstay: &Path, launcher: &Launcher, request: &ConnectRequest) {
    let handover = Handover {
        request: request.clone(),
        launcher: launcher.program().to_owned(),
        arguments: launcher.arguments().to_vec(),
    };
    let Ok(handover) = serde_json::to_string(&handover) else {
        return;
    };
    // An error is a missing program, one that cannot be run, or a variable that is too long for the system.
    let _error = Command::new(mainstay.with_file_name(PROGRAM))
        .arg0("mainstay")
        .args(env::args_os().skip(1))
        .env(VARIABLE, handover)
        .exec();
}

/// Is the bridge that `mainstay` handed over, until its host closes its side.
pub fn run() -> Result<(), HandoverError> {
    let handed = env::var(VARIABLE).map_err(|_| HandoverError::NotHanded)?;
    let handed: Handover = serde_json::from_str(&handed).map_err(|_| HandoverError::OtherVersion)?;
    let directory = RuntimeDirectory::find(|name| env::var_os(name))?;
    let launcher = Launcher::of(handed.launcher, handed.arguments);
    bridge::run(DaemonDialer::new(directory, launcher), handed.request)?;
    Ok(())
}
