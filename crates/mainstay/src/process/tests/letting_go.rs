//! A process that is let go of instead of stopped.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use rustix::process::{Pid, Signal};
use tokio::sync::Semaphore;

use super::super::shared_scan;
use super::{LONG, NO_EOF_LADDER, PATIENT_LADDER, ShutdownDeadline, comes_true, marked, runs, start, stat};

const STUBBORN: &str = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; done' &
    while :; do sleep 1000; done";

#[tokio::test]
async fn dropping_a_process_leaves_nothing() {
    let mut server = start(STUBBORN);
    server.says().await;
    let (pid, marker) = (server.process.pid(), server.process.marker().to_owned());
    drop(server.process);
    assert!(comes_true(LONG, || marked(&marker).is_empty()));
    assert!(comes_true(LONG, || stat(pid).is_none()), "the leader is reaped");
}

/// The scan of all processes is held up here, so that a drop that waits for one would not come back before the permit is free.
#[tokio::test]
async fn dropping_a_process_kills_its_group_at_once_and_leaves_the_scan_to_a_thread_of_its_own() {
    let mut server = start(STUBBORN);
    server.says().await;
    let (pid, marker) = (server.process.pid(), server.process.marker().to_owned());
    let permits = Arc::new(Semaphore::new(1));
    let permit = permits.clone().try_acquire_owned().unwrap();
    server.process.hold_until_gone(permit);
    let held = shared_scan::hold_scans().await;
    drop(server.process);
    assert!(permits.try_acquire().is_err(), "held until the tree is gone");
    drop(held);
    let gone = tokio::time::timeout(LONG, permits.acquire()).await;
    let _permit = gone.expect("in time").unwrap();
    assert_eq!(marked(&marker), [0i32; 0]);
    assert_eq!(stat(pid), None, "the leader is reaped");
}

#[tokio::test]
async fn dropping_a_stop_half_way_leaves_nothing() {
    for ladder in [PATIENT_LADDER, NO_EOF_LADDER] {
        let mut server = start(STUBBORN);
        server.says().await;
        let (pid, marker) = (server.process.pid(), server.process.marker().to_owned());
        let shutdown_deadline = ShutdownDeadline::default();
        let mut stop = Box::pin(server.process.stop(&ladder, &shutdown_deadline));
        assert!(
            stop.as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        assert_ne!(marked(&marker), [0i32; 0]);
        drop(stop);
        assert!(comes_true(LONG, || marked(&marker).is_empty()));
        assert!(comes_true(LONG, || stat(pid).is_none()), "the leader is reaped");
    }
}

#[tokio::test]
async fn a_panic_of_its_owner_leaves_nothing() {
    let mut server = start(STUBBORN);
    server.says().await;
    let marker = server.process.marker().to_owned();
    let owner = tokio::spawn(async move {
        let _owned = server.process;
        panic!("the owner's own fault");
    });
    assert!(owner.await.unwrap_err().is_panic());
    assert!(comes_true(LONG, || marked(&marker).is_empty()));
}

#[test]
fn the_end_of_the_runtime_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let marker = runtime.block_on(async {
        let mut server = start(STUBBORN);
        server.says().await;
        let marker = server.process.marker().to_owned();
        tokio::spawn(async move { server.process.exited().await });
        marker
    });
    drop(runtime);
    assert!(comes_true(LONG, || marked(&marker).is_empty()));
}

/// As where the kernel pins no process: the number of one that has ended may be a stranger's by the time it is signalled.
#[tokio::test]
async fn without_a_pin_a_stranger_is_never_signalled_and_one_of_the_tree_is() {
    let mut server = start("setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000");
    let escaped = server.says_pid().await;
    let mut stranger = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let tree = server.process.tree.clone();
    let signal = |pid| tree.signal_unpinned(Pid::from_raw(pid).unwrap(), Signal::KILL);
    signal(stranger.id().cast_signed());
    signal(escaped);
    assert!(comes_true(LONG, || !runs(escaped)));
    assert_eq!(stranger.try_wait().unwrap(), None, "it is not ours");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
