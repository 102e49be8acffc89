use std::sync::Arc;

use rustix::process::Signal;

use super::{LONG, PATIENT_LADDER, SHORT_LADDER, kill, runs, start, stop};

#[tokio::test]
async fn the_last_lines_of_a_crash_are_in_the_ring_when_it_is_reported() {
    for _ in 0..20 {
        let server = start("echo first >&2; printf 'and last' >&2; exit 1");
        server.process.exited().await;
        server.process.drain_stderr().await;
        assert_eq!(server.ring.lines_of(1), ["first", "and last"]);
        let _ = stop(server.process, &PATIENT_LADDER).await;
    }
}

#[tokio::test]
async fn a_flood_of_stderr_without_a_reader_does_not_block_the_server() {
    for flood in [
        "yes 'something went wrong, and here is why'",
        "tr '\\0' x </dev/zero",
    ] {
        let server = start(&format!("{flood} | head -c 50000000 >&2 && exit 4"));
        let exit = tokio::time::timeout(3 * LONG, server.process.exited())
            .await
            .expect("it is not blocked");
        assert_eq!(exit.code, Some(4));
        let _ = stop(server.process, &PATIENT_LADDER).await;
        assert!(server.ring.tail(usize::MAX).len() <= 200);
    }
}

/// Started with an empty environment in a session of its own, it is beyond all search; it must still hold up nothing.
#[tokio::test]
async fn a_pipe_held_by_a_stranger_does_not_hold_up_a_stop() {
    let mut server =
        start("env -i setsid sh -c 'echo $$; exec sleep 1000' & read -r _; printf bye >&2; exit 1");
    let stranger = server.says_pid().await;
    drop(server.stdin);
    server.process.exited().await;

    let _ = stop(server.process, &SHORT_LADDER).await;
    // Who reads the pipe holds the ring; nobody does so for longer than the stop.
    let unread = async {
        while Arc::strong_count(&server.ring) > 1 {
            tokio::task::yield_now().await;
        }
    };
    let unread = tokio::time::timeout(LONG, unread).await;
    let held = runs(stranger);
    kill(stranger, Signal::KILL);
    assert!(
        held,
        "the stranger was to outlive the stop, or this shows nothing"
    );
    assert!(unread.is_ok());
    assert_eq!(
        server.ring.tail(1)[0].text,
        "bye",
        "what was written before is kept"
    );
}
