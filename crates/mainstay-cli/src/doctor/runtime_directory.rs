//! The directory of the daemon's socket: whether it can be used, and whether a dead daemon left its socket there.

use std::env;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use mainstay_bridge::RuntimeDirectory;

use super::examination::Examination;

pub(super) fn examine() -> Examination {
    let mut found = Examination::new("daemon socket", "");
    let directory = match RuntimeDirectory::existing(|name| env::var_os(name)) {
        Ok(Some(directory)) => directory,
        Ok(None) => {
            "none yet; the first client makes it".clone_into(&mut found.summary);
            return found;
        }
        Err(error) => {
            "it cannot be used".clone_into(&mut found.summary);
            // The error says the remedy behind a colon, in the same sentence.
            let said = error.to_string();
            let (problem, remedy) = said
                .rsplit_once(": ")
                .unwrap_or((said.as_str(), "set MAINSTAY_RUNTIME"));
            found.problem("runtime directory", problem, remedy);
            return found;
        }
    };
    let socket = directory.socket();
    let shown = socket.display().to_string();
    let Ok(there) = fs::symlink_metadata(&socket) else {
        found.summary = format!("{shown}: no daemon runs");
        return found;
    };
    if !there.file_type().is_socket() {
        found.summary = format!("{shown} is in the way");
        found.problem(
            shown,
            "there is something else where the daemon's socket belongs",
            match there.is_dir() {
                true => format!("look what is in it, and remove it: `rm -r {}`", socket.display()),
                false => format!("remove it: `rm {}`", socket.display()),
            },
        );
    } else if listens(&socket) {
        found.summary = format!("{shown}: a daemon listens");
    } else {
        found.summary = format!("{shown}: no daemon listens");
        found.hint(
            shown,
            "a daemon that died left its socket",
            "the next daemon replaces it; `mainstay daemon start` starts one",
        );
    }
    found
}

/// Whether a process listens on the socket. It is not connected to: that would start a daemon that systemd listens for.
fn listens(socket: &Path) -> bool {
    /// The flag of a socket that accepts connections.
    const ACCEPTS: u32 = 1 << 16;
    let Ok(table) = fs::read_to_string("/proc/net/unix") else {
        return std::os::unix::net::UnixStream::connect(socket).is_ok();
    };
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace();
        let flags = fields
            .nth(3)
            .and_then(|flags| u32::from_str_radix(flags, 16).ok());
        let path = fields.nth(3);
        flags.is_some_and(|flags| flags & ACCEPTS != 0) && path.is_some_and(|path| Path::new(path) == socket)
    })
}
