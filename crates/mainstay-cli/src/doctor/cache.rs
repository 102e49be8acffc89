//! The directory where catalogs are stored: whether it can be written.

use std::path::Path;

use rustix::fs::{Access, access};

use super::examination::Examination;
use crate::args::Common;
use crate::load::cache_directory;

pub(super) fn examine(common: &Common) -> Examination {
    let mut found = Examination::new("cache", "");
    let directory = match cache_directory() {
        _ if common.no_cache => {
            "not used, since --no-cache says so".clone_into(&mut found.summary);
            return found;
        }
        Some(directory) => directory,
        None => {
            "there is no place for it".clone_into(&mut found.summary);
            found.hint(
                "cache",
                "neither MAINSTAY_CACHE, XDG_CACHE_HOME nor HOME is set, so no catalog is stored",
                "set one of them",
            );
            return found;
        }
    };
    found.summary = directory.display().to_string();
    // The program creates the directory when it stores something. Until then the nearest one above it counts.
    let existing = directory.ancestors().find(|directory| directory.exists());
    let existing = existing.unwrap_or(Path::new("/"));
    let subject = directory.display().to_string();
    let remedy = "name another directory in MAINSTAY_CACHE, or make this one writable";
    if !existing.is_dir() {
        let problem = format!(
            "{} is not a directory, so no catalog is stored",
            existing.display()
        );
        found.problem(subject, problem, remedy);
    } else if let Err(error) = access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        let problem = format!(
            "{} cannot be written ({error}), so no catalog is stored",
            existing.display()
        );
        found.problem(subject, problem, remedy);
    }
    found
}
