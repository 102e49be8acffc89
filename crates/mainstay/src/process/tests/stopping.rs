use std::time::Duration;

use mainstay_testkit::clock;
use mainstay_testkit::poll::comes_true_async;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};

use super::super::{ProcessExit, Rung};
use super::{
    LONG, Ladder, NEVER, NO_EOF_LADDER, PATIENT_LADDER, SHORT_LADDER, ShutdownDeadline, comes_true, kill,
    marked, runs, start, stop,
};

/// A ladder for a leader that ends by SIGTERM, whenever it comes to that, and leaves some behind who do not.
const LEADER_FIRST: Ladder = Ladder {
    term_grace: NEVER,
    ..SHORT_LADDER
};

fn exit_status(code: i32) -> Option<ProcessExit> {
    Some(ProcessExit {
        code: Some(code),
        signal: None,
    })
}

fn killed_by(signal: Signal) -> Option<ProcessExit> {
    Some(ProcessExit {
        code: None,
        signal: Some(signal.as_raw()),
    })
}

#[tokio::test]
async fn every_waiter_sees_an_exit_and_the_stop_finds_nothing_to_do() {
    let server = start("exit 3");
    let (first, second) = tokio::join!(server.process.exited(), server.process.exited());
    assert_eq!((Some(first), Some(second)), (exit_status(3), exit_status(3)));
    assert_eq!(
        Some(server.process.exited().await),
        exit_status(3),
        "also to one who asks afterwards"
    );

    let stopped = stop(server.process, &PATIENT_LADDER).await;
    assert_eq!((stopped.exit, stopped.by), (exit_status(3), Rung::Exited));
    assert_eq!((stopped.swept, stopped.survivors), (0, 0));
}

#[tokio::test]
async fn a_server_that_ends_with_its_input_is_not_signalled() {
    let server = start("cat; exit 7");
    drop(server.stdin);
    let stopped = stop(server.process, &PATIENT_LADDER).await;
    assert_eq!(
        (stopped.exit, stopped.by, stopped.survivors),
        (exit_status(7), Rung::Eof, 0)
    );
}

#[tokio::test]
async fn a_server_that_ignores_the_end_of_its_input_is_terminated() {
    let server = start("exec sleep 1000");
    drop(server.stdin);
    let ladder = Ladder {
        eof_grace: Duration::from_millis(30),
        ..PATIENT_LADDER
    };
    let stopped = stop(server.process, &ladder).await;
    assert_eq!(
        (stopped.exit, stopped.by),
        (killed_by(Signal::TERM), Rung::Terminated)
    );
}

#[tokio::test]
async fn a_server_that_ignores_sigterm_is_killed_with_all_its_children() {
    let mut server = start("trap '' TERM; sleep 1000 & sleep 1000 & echo ready; while :; do wait; done");
    server.says().await;
    let marker = server.process.marker().to_owned();
    let stopped = stop(server.process, &SHORT_LADDER).await;
    assert_eq!(
        (stopped.exit, stopped.by),
        (killed_by(Signal::KILL), Rung::Killed)
    );
    assert_eq!(stopped.survivors, 0);
    assert_eq!(marked(&marker), [0i32; 0]);
}

#[tokio::test]
async fn a_stopped_server_is_woken_to_end_by_itself() {
    let mut server = start("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done");
    server.says().await;
    kill(server.process.pid(), Signal::STOP);
    let stopped = stop(server.process, &NO_EOF_LADDER).await;
    assert_eq!((stopped.exit, stopped.by), (exit_status(5), Rung::Terminated));
}

#[tokio::test]
async fn a_stopped_server_that_ignores_sigterm_is_killed() {
    let mut server = start("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    server.says().await;
    kill(server.process.pid(), Signal::STOP);
    let stopped = stop(server.process, &SHORT_LADDER).await;
    assert_eq!(
        (stopped.exit, stopped.by, stopped.survivors),
        (killed_by(Signal::KILL), Rung::Killed, 0)
    );
}

#[tokio::test]
async fn a_server_is_stopped_while_it_starts() {
    let server = start("sleep 1000 & setsid sleep 1000 & sleep 1000");
    let marker = server.process.marker().to_owned();
    let stopped = stop(server.process, &NO_EOF_LADDER).await;
    assert_eq!(stopped.survivors, 0);
    assert_eq!(marked(&marker), [0i32; 0]);
}

#[tokio::test]
async fn a_child_that_stays_in_the_group_of_a_dead_leader_is_swept() {
    let mut server = start("sleep 1000 & echo $!; exit 1");
    let child = server.says_pid().await;
    server.process.exited().await;
    assert!(runs(child));

    let stopped = stop(server.process, &PATIENT_LADDER).await;
    assert_eq!(
        (stopped.by, stopped.swept, stopped.survivors),
        (Rung::Exited, 1, 0)
    );
    assert!(!runs(child));
}

#[tokio::test]
async fn a_stubborn_grandchild_in_its_own_session_is_swept_after_its_leader_died() {
    let mut server = start("setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & read -r _; exit 1");
    let grandchild = server.says_pid().await;
    drop(server.stdin);
    server.process.exited().await;
    let marker = server.process.marker().to_owned();
    assert!(runs(grandchild));

    let stopped = stop(server.process, &SHORT_LADDER).await;
    assert_eq!((stopped.by, stopped.survivors), (Rung::Exited, 0));
    assert_eq!(stopped.swept, 1);
    assert!(!runs(grandchild));
    assert_eq!(marked(&marker), [0i32; 0]);
}

#[tokio::test]
async fn a_double_fork_does_not_escape_a_stop() {
    let mut server =
        start("(setsid sh -c '(trap \"\" TERM HUP; echo $$; exec sleep 1000) & exit' &); exec sleep 1000");
    server.says().await;
    let marker = server.process.marker().to_owned();
    assert!(
        comes_true(LONG, || marked(&marker).len() == 2),
        "nothing but the leader and the one that escapes"
    );
    let stopped = stop(server.process, &LEADER_FIRST).await;
    assert_eq!((stopped.by, stopped.survivors), (Rung::Terminated, 0));
    assert_eq!(stopped.swept, 1);
    assert_eq!(marked(&marker), [0i32; 0]);
}

#[tokio::test]
async fn a_member_of_the_group_without_the_marker_is_swept_after_its_leader_died() {
    let mut server = start("env -i sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & read -r _; exit 1");
    let member = server.says_pid().await;
    drop(server.stdin);
    server.process.exited().await;
    let stopped = stop(server.process, &SHORT_LADDER).await;
    assert_eq!((stopped.by, stopped.survivors), (Rung::Exited, 0));
    assert_eq!(stopped.swept, 1);
    assert!(!runs(member));
}

#[tokio::test]
async fn a_process_that_outlives_the_leader_may_still_end_by_itself() {
    let straggler = "trap \"echo in order >&2; exit\" TERM; echo $$; while :; do sleep 0.01; done";
    let mut server = start(&format!(
        "sh -c '{straggler}' & setsid sh -c '{straggler}' & read -r _; exit 1"
    ));
    server.says().await;
    server.says().await;
    drop(server.stdin);
    server.process.exited().await;
    let ring = server.ring.clone();
    let stopped = stop(server.process, &PATIENT_LADDER).await;
    assert_eq!(stopped.survivors, 0);
    assert_eq!(
        ring.tail(9).iter().filter(|line| line.text == "in order").count(),
        2
    );
}

#[tokio::test]
async fn no_process_of_the_group_gets_sigterm_twice() {
    // It ends a moment after it was told: time to be told again.
    let told = "trap \"echo told >&2; told=x\" TERM; echo $$; left=xxxxxxxxxxxxxxxxxxxx
                while [ $left ]; do sleep 0.01; [ $told ] && left=${left#x}; done";
    let mut server = start(&format!("sh -c '{told}' & exec sleep 1000"));
    server.says().await;
    let ring = server.ring.clone();
    let ladder = Ladder {
        straggler_grace: NEVER,
        ..LEADER_FIRST
    };
    let stopped = stop(server.process, &ladder).await;
    assert_eq!((stopped.by, stopped.survivors), (Rung::Terminated, 0));
    assert_eq!(ring.tail(9).iter().filter(|line| line.text == "told").count(), 1);
}

/// Less than any rung of the patient ladder, and seconds for each rung.
const HURRY: Duration = Duration::from_secs(15);

#[tokio::test]
async fn a_stop_under_way_that_must_hurry_still_shows_sigterm_before_it_kills() {
    let mut server = start("trap 'echo told >&2' TERM; echo ready; while :; do sleep 0.01; done");
    server.says().await;
    let (ring, shutdown_deadline) = (server.ring.clone(), ShutdownDeadline::default());
    let mut stop = Box::pin(server.process.stop(&PATIENT_LADDER, &shutdown_deadline));
    assert!(
        clock::keeps_waiting(&mut stop).await,
        "for the end of the process"
    );
    assert!(ring.tail(9).is_empty(), "it has not got SIGTERM yet");
    shutdown_deadline.call(Instant::now() + HURRY);
    let stopped = timeout(LONG, stop).await.expect("it hurries");
    assert_eq!((stopped.by, stopped.survivors), (Rung::Killed, 0));
    assert_eq!(ring.tail(9).iter().filter(|line| line.text == "told").count(), 1);
}

#[tokio::test]
async fn a_process_that_outlives_the_leader_is_killed_sooner_near_a_deadline() {
    let mut server = start(
        "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & read -r _; \
                            setsid sh -c 'echo $$; exec sleep 1000' & read -r _; exit 1",
    );
    let straggler = server.says_pid().await;
    server.stdin.write_all(b"\n").await.unwrap();
    let other = server.says_pid().await;
    drop(server.stdin);
    server.process.exited().await;
    let shutdown_deadline = ShutdownDeadline::default();
    let mut stop = Box::pin(server.process.stop(&PATIENT_LADDER, &shutdown_deadline));
    let told = tokio::select! {
        stopped = &mut stop => panic!("not without a deadline: {stopped:?}"),
        told = comes_true_async(LONG, || !runs(other)) => told,
    };
    assert!(told, "SIGTERM is sent");
    assert!(runs(straggler));
    shutdown_deadline.call(Instant::now() + HURRY);
    let stopped = timeout(LONG, stop).await.expect("it hurries");
    assert_eq!((stopped.swept, stopped.survivors), (2, 0));
}
