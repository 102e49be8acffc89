//! Turns the entries of hosts back to what they were before they were pointed at `mainstay connect`.

use std::fs;

use mainstay_hosts::file::{Keep, backups_of};
use mainstay_hosts::import::HostFile;

use super::{ImportDone, show, shown, write};
use crate::exit::CommandFailure;
use crate::output::{Screen, text};

pub(super) fn run(files: &[HostFile], yes: bool, screen: &Screen) -> Result<ImportDone, CommandFailure> {
    let mut done = ImportDone::default();
    for file in files {
        let copies = backups_of(&file.place.path);
        let first = copies.first().and_then(|copy| fs::read_to_string(copy).ok());
        let restored = file.restored(first.as_deref());
        if restored.changed.is_empty() {
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
    if !done.is_due {
        screen.note("no host's entry points at mainstay connect");
    }
    Ok(done)
}
