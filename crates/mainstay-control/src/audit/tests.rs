use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::api::Actor;

fn command(sequence: u64, command: &str, refused: Option<&str>) -> EventRecord {
    EventRecord {
        sequence,
        at_ms: 1_000 + sequence,
        node: None,
        server: Some("files".to_owned()),
        detail: EventDetail::Command {
            command: command.to_owned(),
            by: Actor::via(ActorKind::Api),
            refused: refused.map(str::to_owned),
            outcome: None,
        },
    }
}

fn texts(directory: &Path) -> Vec<String> {
    let names = [file::PREVIOUS, file::CURRENT];
    let read = |name| fs::read_to_string(directory.join(name)).unwrap_or_default();
    names.into_iter().map(read).collect()
}

#[test]
fn every_command_is_a_line_that_is_read_again_and_nothing_else_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let log = AuditLog::start(&state, "run").expect("a thread");
    let restarted = command(1, "restart", None);
    let refused = command(3, "enable", Some(&"x".repeat(REASON_LIMIT * 2)));
    log.keep(&restarted);
    log.keep(&EventRecord {
        detail: EventDetail::Added,
        ..command(2, "", None)
    });
    log.keep(&refused);
    drop(log);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&state.join(file::CURRENT)), 0o600);
    assert_eq!(mode(&state), 0o700);
    let reading = read_audit(&state).expect("readable");
    let read: Vec<_> = reading
        .records
        .iter()
        .map(|record| record.event.sequence)
        .collect();
    assert_eq!((read, reading.unreadable), (vec![1, 3], 0));
    assert_eq!(reading.records[0].instance, "run");
    assert_eq!(reading.records[0].event, restarted);
    let EventDetail::Command {
        refused: Some(why), ..
    } = &reading.records[1].event.detail
    else {
        panic!("{reading:?}");
    };
    assert_eq!(why.chars().count(), REASON_LIMIT + 1, "it is cut");
    assert_eq!(
        read_audit(&directory.path().join("none")).expect("nothing"),
        AuditReading::default()
    );
}

#[test]
fn hostile_text_is_escaped_and_comes_back_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let hostile = "call \u{1b}[2J\n{\"instance\":\u{202e}\u{9b}31m\u{2028}\u{7f} ü 🦀";
    let log = AuditLog::start(directory.path(), "run").expect("a thread");
    log.keep(&command(1, hostile, None));
    drop(log);
    let text = &texts(directory.path())[1];
    let is_shown = |byte: u8| matches!(byte, b' '..=b'~');
    assert_eq!(text.matches('\n').count(), 1);
    assert!(text.trim_end().bytes().all(is_shown), "{text:?}");
    let read = read_audit(directory.path()).expect("readable").records;
    assert_eq!(read[0].event, command(1, hostile, None));
}

#[test]
fn the_file_is_bounded_and_one_previous_file_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut file = AuditFile::with_limit(directory.path(), 1_000);
    for sequence in 0..100 {
        file.append(&line("run", &command(sequence, "restart", None)))
            .expect("written");
        for text in texts(directory.path()) {
            assert!(text.len() <= 1_000, "{}", text.len());
        }
    }
    let reading = read_audit(directory.path()).expect("readable");
    let read: Vec<_> = reading
        .records
        .iter()
        .map(|record| record.event.sequence)
        .collect();
    let first = read[0];
    assert_eq!(
        read,
        (first..100).collect::<Vec<_>>(),
        "the last ones, without a gap"
    );
    assert!(read.len() > 4 && first > 50, "{read:?}");
    assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 2);
}

#[test]
fn two_programs_write_and_rotate_the_same_file_and_no_line_is_torn() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    thread::scope(|scope| {
        for program in ["one", "two"] {
            scope.spawn(move || {
                let mut file = AuditFile::with_limit(path, 100_000);
                for sequence in 0..400 {
                    file.append(&line(program, &command(sequence, "restart", None)))
                        .expect("written");
                }
            });
        }
    });
    let reading = read_audit(path).expect("readable");
    assert_eq!(reading.unreadable, 0);
    for program in ["one", "two"] {
        let of_it = reading.records.iter().filter(|record| record.instance == program);
        let of_it: Vec<_> = of_it.map(|record| record.event.sequence).collect();
        assert_eq!(of_it, (400 - of_it.len() as u64..400).collect::<Vec<_>>());
        assert!(!of_it.is_empty());
    }
}

#[test]
fn what_cannot_be_written_is_counted_and_said_when_the_disk_works_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    fs::write(&state, "in the way").expect("a file");
    let lost = Arc::new(AtomicU64::new(0));
    let writer = || AuditWriter {
        file: AuditFile::new(&state),
        instance: "run".to_owned(),
        lost: lost.clone(),
    };
    let run = |count: u64| {
        let (lines, waiting) = mpsc::sync_channel(8);
        (1..=count).for_each(|sequence| {
            lines
                .send(line("run", &command(sequence, "restart", None)))
                .expect("room");
        });
        drop(lines);
        writer().run(&waiting);
    };
    run(3);
    assert_eq!(lost.load(Ordering::Relaxed), 3);
    fs::remove_file(&state).expect("removed");
    run(1);
    let read = read_audit(&state).expect("readable").records;
    let details: Vec<_> = read.iter().map(|record| &record.event.detail).collect();
    assert!(details.contains(&&EventDetail::Lost { count: 3 }), "{details:?}");
    assert_eq!((read.len(), lost.load(Ordering::Relaxed)), (2, 0));
}

#[test]
fn a_command_does_not_wait_for_a_disk_that_hangs() {
    let (lines, waiting) = mpsc::sync_channel(1);
    let (end, ended) = mpsc::channel();
    let log = AuditLog {
        instance: "run".to_owned(),
        lines: Some(lines),
        lost: Arc::default(),
        ended: Mutex::new(ended),
    };
    for sequence in 1..=5 {
        log.keep(&command(sequence, "restart", None));
    }
    assert_eq!(log.lost.load(Ordering::Relaxed), 4);
    drop((waiting, end));
}

#[test]
fn a_damaged_line_costs_itself_alone_and_a_link_is_not_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(file::CURRENT);
    let good = line("run", &command(1, "restart", None));
    fs::write(&path, format!("{good}{{\"instance\":\"ru\n\u{0}\u{1b}\n{good}")).expect("written");
    let reading = read_audit(directory.path()).expect("readable");
    assert_eq!((reading.records.len(), reading.unreadable), (2, 2));
    let other = directory.path().join("other");
    fs::rename(&path, &other).expect("renamed");
    symlink(&other, &path).expect("a link");
    read_audit(directory.path()).expect_err("a link");
    let before = fs::read(&other).expect("readable");
    AuditFile::new(directory.path())
        .append(&good)
        .expect_err("a link");
    assert_eq!(fs::read(&other).expect("readable"), before);
}
