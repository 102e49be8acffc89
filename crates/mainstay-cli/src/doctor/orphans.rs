//! Processes that an earlier program started and that outlived it.

use super::examination::Examination;

pub(super) fn examine() -> Examination {
    let mut found = Examination::new("orphans", "none");
    let orphans = match mainstay::process::orphans() {
        Ok(orphans) => orphans,
        Err(error) => {
            found.summary = format!("not looked for: {error}");
            return found;
        }
    };
    if !orphans.is_empty() {
        found.summary = format!("{} found", orphans.len());
    }
    for orphan in orphans {
        found.problem(
            format!("process {}", orphan.pid),
            format!("{:?} was started by a Mainstay program that is gone", orphan.name),
            format!(
                "the next server that Mainstay starts ends it, or end it now: `kill {}`",
                orphan.pid
            ),
        );
    }
    found
}
