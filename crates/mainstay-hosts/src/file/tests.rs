use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::{FileError, FileSnapshot, Keep, backups_of, create};

fn snapshot(path: &Path) -> FileSnapshot {
    FileSnapshot::read(path).unwrap().unwrap()
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let read = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = read
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_replaced_file_keeps_its_mode_and_the_links_to_it() {
    let folder = TempDir::new().unwrap();
    let real = folder.path().join("real");
    fs::create_dir(&real).unwrap();
    let target = real.join("a.json");
    fs::write(&target, "old").unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("a.json");
    symlink("real/a.json", &link).unwrap();
    let kept = snapshot(&link).replace("new", Keep::Backup).unwrap().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "old");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(&real), ["a.json", "a.json.mainstay-backup"]);
    assert_eq!(backups_of(&link), [kept]);
}

#[test]
fn a_file_that_another_wrote_or_removed_meanwhile_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.json");
    fs::write(&path, "old").unwrap();
    let read = snapshot(&path);
    fs::write(&path, "theirs").unwrap();
    assert!(matches!(
        read.replace("new", Keep::Backup),
        Err(FileError::Changed { .. })
    ));
    assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        read.replace("new", Keep::Backup),
        Err(FileError::Vanished { .. })
    ));
    assert!(names(folder.path()).is_empty(), "nothing is left behind");
    assert!(FileSnapshot::read(&path).unwrap().is_none());
}

#[test]
fn older_copies_are_never_overwritten_and_equal_ones_are_one() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.json");
    fs::write(&path, "one").unwrap();
    for next in ["two", "three", "one", "two"] {
        snapshot(&path).replace(next, Keep::Backup).unwrap();
    }
    let texts: Vec<_> = backups_of(&path)
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
    for next in ["x", "y"] {
        snapshot(&path).replace(next, Keep::Previous).unwrap();
    }
    assert_eq!(
        fs::read_to_string(folder.path().join("a.json.previous")).unwrap(),
        "x"
    );
}

#[test]
fn what_must_not_be_written_is_refused_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.json");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    assert!(matches!(
        snapshot(&path).replace("new", Keep::Backup),
        Err(FileError::ReadOnly { .. })
    ));
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    fs::hard_link(&path, folder.path().join("b.json")).unwrap();
    assert!(matches!(
        snapshot(&path).replace("new", Keep::Backup),
        Err(FileError::HardLinked { .. })
    ));
    assert!(matches!(
        FileSnapshot::read(folder.path()),
        Err(FileError::NotAFile { .. })
    ));
    let binary = folder.path().join("c.json");
    fs::write(&binary, b"{\"a\": \"\xff\"}").unwrap();
    assert!(matches!(
        FileSnapshot::read(&binary),
        Err(FileError::NotText { .. })
    ));
    let huge = folder.path().join("d.json");
    File::create(&huge).unwrap().set_len(5 << 20).unwrap();
    assert!(matches!(
        FileSnapshot::read(&huge),
        Err(FileError::TooLarge { .. })
    ));
}

#[test]
fn a_new_file_is_its_owners_alone_and_replaces_none() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x/y/mcp.json");
    create(&path, "{}").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let parent = path.parent().unwrap();
    assert_eq!(fs::metadata(parent).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(names(parent), ["mcp.json"]);
    assert!(matches!(create(&path, "[]"), Err(FileError::Changed { .. })));
    assert_eq!(
        (fs::read_to_string(&path).unwrap(), names(parent).len()),
        ("{}".to_owned(), 1)
    );
}

#[test]
fn of_many_runs_at_once_each_writes_the_whole_or_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.json");
    fs::write(&path, "0").unwrap();
    let written: usize = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|n| {
                let path = &path;
                scope.spawn(move || {
                    let text = n.to_string().repeat(100_000);
                    snapshot(path).replace(&text, Keep::Previous).is_ok()
                })
            })
            .collect();
        runs.into_iter().map(|run| usize::from(run.join().unwrap())).sum()
    });
    let text = fs::read_to_string(&path).unwrap();
    assert!(written >= 1);
    assert_eq!(text.len(), 100_000);
    assert!(
        text.chars().all(|c| text.starts_with(c)),
        "one run's text as a whole"
    );
    assert_eq!(names(folder.path()), ["a.json", "a.json.previous"]);
}

#[test]
fn a_folder_that_another_run_holds_is_waited_for_and_then_given_up() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.json");
    fs::write(&path, "old").unwrap();
    let held = File::open(folder.path()).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    assert!(matches!(
        snapshot(&path).replace("new", Keep::Backup),
        Err(FileError::Locked { .. })
    ));
    flock(&held, FlockOperation::Unlock).unwrap();
    snapshot(&path).replace("new", Keep::Backup).unwrap();
}
