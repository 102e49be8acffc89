//! Opens an address in the person's browser. No shell is involved: an address is an argument and nothing else.

use std::env;
use std::process::{Command, Stdio};

use crate::output::{Screen, plain, text};

/// What opens an address on this system.
#[cfg(target_os = "macos")]
const OPENERS: &[&str] = &["open"];
#[cfg(not(target_os = "macos"))]
const OPENERS: &[&str] = &["xdg-open", "x-www-browser", "www-browser"];

/// Opens an address; `false` if no browser could be started. `BROWSER` names commands, separated by `:`; `%s` in one stands
/// for the address.
pub(super) fn open(address: &str, screen: &Screen) -> bool {
    // Only pages, whatever a server names as its authorization endpoint.
    if !address.starts_with("https://") && !address.starts_with("http://") {
        return false;
    }
    if let Some(named) = env::var("BROWSER").ok().filter(|named| !named.is_empty()) {
        if named.split(':').any(|command| start(command, address)) {
            return true;
        }
        screen.warning(text!(
            "none of the commands in BROWSER could be started: {}",
            plain(&named)
        ));
        return false;
    }
    let has_display = env::var_os("DISPLAY").is_some() || env::var_os("WAYLAND_DISPLAY").is_some();
    if cfg!(target_os = "linux") && !has_display {
        return false;
    }
    OPENERS.iter().any(|command| start(command, address))
}

/// Starts a command with the address as its last argument, or in place of `%s`.
fn start(command: &str, address: &str) -> bool {
    let mut words = command.split_ascii_whitespace();
    let Some(program) = words.next() else {
        return false;
    };
    let mut arguments: Vec<String> = words.map(|word| word.replace("%s", address)).collect();
    if !command.contains("%s") {
        arguments.push(address.to_owned());
    }
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => {
            // It may run for as long as the browser does.
            std::thread::spawn(move || child.wait());
            true
        }
        Err(_) => false,
    }
}
