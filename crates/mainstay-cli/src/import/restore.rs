//! Turns the entries of hosts back to what they were before they were pointed at `mainstay connect`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use mainstay_hosts::file::{Keep, backups_of};
use mainstay_hosts::import::HostFile;
use mainstay_hosts::servers::ConfigFile;

use super::{ImportDone, show, shown, write};
use crate::args::Common;
use crate::exit::CommandFailure;
use crate::load;
use crate::output::{Screen, plain, text};

pub(super) fn run(
    files: &[HostFile],
    yes: bool,
    common: &Common,
    screen: &Screen,
) -> Result<ImportDone, CommandFailure> {
    let mut done = ImportDone::default();
    for file in files {
        let copies = backups_of(&file.place.path);
        let first = copies.first().and_then(|copy| fs::read_to_string(copy).ok());
        let restored = file.restored(first.as_deref());
        if restored.changed.is_empty() {
            continue;
        }
        if let Err(error) = file.snapshot().check_writable() {
            done.is_failed = true;
            screen.error(plain(&format!("{:#}", anyhow!(error))));
            continue;
        }
        done.is_due = true;
        let (same, other): (Vec<_>, Vec<_>) = copies
            .into_iter()
            .partition(|copy| fs::read(copy).is_ok_and(|kept| kept == restored.text.as_bytes()));
        screen.print(show::restoring(file, &restored, !same.is_empty(), screen))?;
        if !yes {
            continue;
        }
        // The text that is replaced can be made again only if it was made from the one that comes back.
        let keep = if same.is_empty() {
            Keep::Backup
        } else {
            Keep::Nothing
        };
        if !write(file, &restored.text, keep, screen) {
            done.is_failed = true;
            continue;
        }
        // The file is what these copies were kept for.
        for copy in same {
            if let Err(error) = fs::remove_file(&copy) {
                tracing::debug!(%error, "a copy that is no longer needed stays");
            }
        }
        for copy in other {
            screen.note(text!("kept: {}", shown(&copy)));
        }
    }
    if done.is_due {
        say_what_stays(common, screen);
    } else if !done.is_failed {
        screen.note("no host's entry points at mainstay connect");
    }
    Ok(done)
}

/// Says that Mainstay's configuration keeps its servers, and which of them hold values that may be secrets.
fn say_what_stays(common: &Common, screen: &Screen) {
    // A configuration that cannot be read is the trouble of the commands that use it.
    let Ok(path) = load::user_file(common) else { return };
    let Ok(config) = ConfigFile::open(&path) else {
        return;
    };
    let names = config.with_values().unwrap_or_default();
    if names.is_empty() {
        return;
    }
    screen.note(text!(
        "{} still has values of `env`, headers, arguments or addresses of {}, which may be secrets; `mainstay remove NAME` removes a server, and the \
         version before that stays in {}",
        shown(&path),
        plain(&names.join(", ")),
        shown(&previous_of(&path))
    ));
}

fn previous_of(path: &Path) -> PathBuf {
    let mut previous = path.as_os_str().to_owned();
    previous.push(".previous");
    PathBuf::from(previous)
}
