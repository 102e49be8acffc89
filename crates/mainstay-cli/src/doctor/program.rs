//! Programs: where they are found, and which version they have.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, access};

/// How long a program may take to print its version. Node takes 50 ms, on a busy machine with a cold disk a second.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of its output is read.
const VERSION_BYTES: u64 = 256;

/// Where programs are installed that a PATH often lacks: a host that was started from a desktop has another PATH than a
/// terminal. `~` is the home directory; `*` stands for each version, of which the newest counts.
const USUAL_DIRECTORIES: [&str; 22] = [
    "~/.local/bin",
    "~/.nvm/versions/node/*/bin",
    "~/.local/share/fnm/node-versions/*/installation/bin",
    "~/.volta/bin",
    "~/.local/share/mise/shims",
    "~/.asdf/shims",
    "~/.npm-global/bin",
    "~/.local/share/pnpm",
    "~/Library/pnpm",
    "~/.bun/bin",
    "~/.deno/bin",
    "~/.cargo/bin",
    "~/.pyenv/shims",
    "~/go/bin",
    "~/.rd/bin",
    "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/usr/local/bin",
    "/opt/local/bin",
    "/snap/bin",
    "/usr/bin",
    "/bin",
];

/// Whether a path is a file that this user may run.
pub(super) fn is_runnable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// The first program of this name in a PATH.
pub(super) fn in_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path)
        .map(|directory| directory.join(name))
        .find(|program| is_runnable(program))
}

/// Where a program of this name is, outside of the PATH.
pub(super) fn elsewhere(name: &str) -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    USUAL_DIRECTORIES
        .iter()
        .filter_map(|directory| match directory.strip_prefix("~/") {
            Some(below) => Some(home.as_ref()?.join(below)),
            None => Some(PathBuf::from(directory)),
        })
        .flat_map(|directory| versions(&directory))
        .map(|directory| directory.join(name))
        .find(|program| is_runnable(program))
}

/// A directory, or where it has a `*` those that it stands for, the newest version first.
fn versions(directory: &Path) -> Vec<PathBuf> {
    let Some((before, after)) = directory.to_str().and_then(|text| text.split_once("/*/")) else {
        return vec![directory.to_owned()];
    };
    let mut found: Vec<(Vec<u64>, PathBuf)> = fs::read_dir(before)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let version = numbers(&entry.file_name().to_string_lossy());
            (version, entry.path().join(after))
        })
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    found.into_iter().map(|(_, path)| path).collect()
}

/// The numbers of a version: `v20.11.1` is 20, 11, 1.
pub(super) fn numbers(text: &str) -> Vec<u64> {
    let begins = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let version = text[begins..].split(|c: char| !c.is_ascii_digit() && c != '.');
    let version = version.into_iter().next().unwrap_or_default();
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

/// What a program prints for `--version`; `None` if it does not run, or takes too long.
pub(super) fn version_text(program: &Path, path: &OsStr) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let output = child.stdout.take()?;
    let (sender, printed) = mpsc::channel();
    // If a descendant holds the pipe, this thread stays until the program ends.
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = output.take(VERSION_BYTES).read_to_end(&mut text);
        let _ = sender.send(text);
    });
    let text = printed.recv_timeout(VERSION_TIMEOUT).ok();
    // It has printed its version or hangs; either way it is not needed any more.
    let _ = child.kill();
    let _ = child.wait();
    let text = String::from_utf8_lossy(&text?).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{numbers, versions};

    #[test]
    fn the_numbers_of_a_version_are_found() {
        for (text, expected) in [
            ("v20.11.1", &[20, 11, 1][..]),
            ("Python 3.13.0rc1", &[3, 13, 0]),
            ("mainstay 0.1.0", &[0, 1, 0]),
            ("no version", &[]),
            ("", &[]),
        ] {
            assert_eq!(numbers(text), expected, "{text}");
        }
    }

    #[test]
    fn the_newest_version_comes_first() {
        let directory = tempfile::tempdir().unwrap();
        for version in ["v9.0.0", "v20.1.0", "v18.20.0"] {
            std::fs::create_dir_all(directory.path().join(version)).unwrap();
        }
        let found = versions(&directory.path().join("*/bin"));
        let expected =
            ["v20.1.0", "v18.20.0", "v9.0.0"].map(|version| directory.path().join(version).join("bin"));
        assert_eq!(found, expected);
    }
}
