//! Whether a browser runs in a sandbox, or on another machine, where it cannot read the private files of this user.
//!
//! A browser of an unknown kind counts as an ordinary one. If nothing opens, the terminal names the option for a code.

use std::env;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long the desktop may take to name its browser.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest script that is looked into: those that only start a browser in a sandbox are shorter.
const SCRIPT_LIMIT: u64 = 4096;

/// Words in the command of a sandboxed program, or in a script that starts one.
const SANDBOX_COMMANDS: &[&str] = &["/snap/bin/", "flatpak run", "/flatpak "];

/// Where sandboxed programs, and the files that describe them, are.
const SANDBOX_PLACES: &[&str] = &["/snap/", "/var/lib/snapd/", "/flatpak/exports/"];

/// Programs that open an address on another machine: those of WSL, and of the terminal of an editor.
const REMOTE_OPENERS: &[&str] = &["wslview", "wsl-open", "helpers/browser.sh"];

/// Programs that ask the desktop which browser to start.
const DESKTOP_OPENERS: &[&str] = &["xdg-open", "gio", "kde-open", "exo-open"];

/// Whether the browser that this program is, or starts, cannot read a private file.
pub(super) fn is_confined(program: &str) -> bool {
    if REMOTE_OPENERS.iter().any(|opener| program.ends_with(opener)) {
        return true;
    }
    let Some(path) = find_program(program) else {
        return false;
    };
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if DESKTOP_OPENERS.contains(&name) {
        return find_desktop_browser().is_some_and(|entry| entry_is_confined(&entry));
    }
    program_is_confined(&path)
}

/// Where a program is.
fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

fn program_is_confined(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // The commands of snaps are links to the one program that starts them all.
    let is_starter = real
        .file_name()
        .is_some_and(|name| name == "snap" || name == "flatpak");
    is_starter || is_in_sandbox_place(path) || is_in_sandbox_place(&real) || script_is_confined(&real)
}

fn is_in_sandbox_place(path: &Path) -> bool {
    let path = path.to_string_lossy();
    SANDBOX_PLACES.iter().any(|place| path.contains(place))
}

/// Whether this is a script that only starts a program in a sandbox, as Ubuntu's `/usr/bin/firefox`.
fn script_is_confined(path: &Path) -> bool {
    let is_short = fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= SCRIPT_LIMIT);
    if !is_short {
        return false;
    }
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.starts_with("#!") && starts_sandbox(&text)
}

fn starts_sandbox(command: &str) -> bool {
    SANDBOX_COMMANDS.iter().any(|start| command.contains(start))
}

/// Whether a desktop entry starts its program in a sandbox.
fn entry_is_confined(entry: &Path) -> bool {
    if is_in_sandbox_place(entry) {
        return true;
    }
    let text = fs::read_to_string(entry).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.strip_prefix("Exec="))
        .any(|command| {
            let words = command
                .split_ascii_whitespace()
                .map(|word| word.trim_matches('"'));
            let mut programs = words.filter(|word| !word.starts_with(['-', '%']) && !word.contains('='));
            let program = programs
                .next()
                .filter(|word| *word != "env")
                .or_else(|| programs.next());
            starts_sandbox(command)
                || program
                    .and_then(find_program)
                    .is_some_and(|path| program_is_confined(&path))
        })
}

/// The entry of what the desktop opens pages with.
fn find_desktop_browser() -> Option<PathBuf> {
    let name = run_query(&["xdg-mime", "query", "default", "text/html"])?;
    let name = name.trim();
    if name.is_empty() || name.contains('/') {
        return None;
    }
    applications()
        .into_iter()
        .map(|directory| directory.join(name))
        .find(|entry| entry.is_file())
}

/// Where desktop entries are.
fn applications() -> Vec<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let home = set("HOME").map(PathBuf::from);
    let own = set("XDG_DATA_HOME").map(PathBuf::from);
    let own = own.or_else(|| home.as_ref().map(|home| home.join(".local/share")));
    let shared = set("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
    let mut bases: Vec<PathBuf> = own.into_iter().chain(env::split_paths(&shared)).collect();
    bases.extend(home.map(|home| home.join(".local/share/flatpak/exports/share")));
    bases.push("/var/lib/flatpak/exports/share".into());
    bases.push("/var/lib/snapd/desktop".into());
    bases.into_iter().map(|base| base.join("applications")).collect()
}

/// The output of a command, if it ends in time.
fn run_query(words: &[&str]) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut output = child.stdout.take()?.take(SCRIPT_LIMIT);
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = output.read_to_string(&mut text);
        let _ = sender.send(read.ok().map(|_| text));
    });
    let answered = answer.recv_timeout(QUERY_TIMEOUT);
    let _ = child.kill();
    let _ = child.wait();
    answered.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_sandboxes_are_recognized_and_others_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let wrapper = at("bin/firefox", "#!/bin/sh\nexec /snap/bin/firefox \"$@\"\n");
        let ordinary = at(
            "bin/chromium",
            "#!/bin/sh\nexec /usr/lib/chromium/chromium \"$@\"\n",
        );
        let starter = at("bin/snap", "");
        let link = directory.path().join("bin/opera");
        std::os::unix::fs::symlink(&starter, &link).unwrap();
        let exported = at("flatpak/exports/bin/org.mozilla.firefox", "");
        for program in [
            wrapper.as_str(),
            link.to_str().unwrap(),
            &exported,
            "/snap/bin/x",
            "wslview",
        ] {
            assert!(is_confined(program), "{program}");
        }
        for program in [ordinary.as_str(), "/usr/bin/no-such-browser", "no-such-browser"] {
            assert!(!is_confined(program), "{program}");
        }
        let snap = "[Desktop Entry]\nExec=env BAMF_DESKTOP_FILE_HINT=/x /snap/bin/firefox %u\n";
        let flatpak =
            "[Desktop Entry]\nExec=/usr/bin/flatpak run --branch=stable org.mozilla.firefox @@u %u @@\n";
        let wrapped = format!("[Desktop Entry]\nExec={wrapper} %u\n");
        let plain = format!("[Desktop Entry]\nExec={ordinary} %u\n");
        for (text, confined) in [(snap, true), (flatpak, true), (&wrapped, true), (&plain, false)] {
            let entry = at("browser.desktop", text);
            assert_eq!(entry_is_confined(Path::new(&entry)), confined, "{text}");
        }
    }
}
