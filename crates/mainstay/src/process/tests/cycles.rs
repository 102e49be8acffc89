use std::fs;

use mainstay_testkit::poll::comes_true_async;

use super::{LONG, PATIENT_LADDER, SHORT_LADDER, comes_true, processes, rerun, start, stat, stop};

const CYCLES: usize = 200;

/// In a program of its own, where nothing but the cycles opens descriptors and has children.
#[test]
fn two_hundred_starts_and_ends_leave_no_zombie_and_no_descriptor() {
    if rerun::is_it() {
        return rerun::block_on(cycles());
    }
    let output = rerun::of("cycles::two_hundred_starts_and_ends_leave_no_zombie_and_no_descriptor")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

async fn cycles() {
    // The first start opens what the whole program shares.
    cycle(0).await;
    let before = descriptors();
    for n in 0..CYCLES {
        cycle(n).await;
        let reaped = comes_true(LONG, || children_in_state('Z').is_empty());
        assert!(reaped, "after cycle {n}: {:?}", children_in_state('Z'));
    }
    // Who was killed last closes its pipe a moment after it was found gone.
    let closed = comes_true_async(LONG, || descriptors() <= before).await;
    assert!(closed, "{} descriptors became {}", before, descriptors());
}

async fn cycle(n: usize) {
    match n % 4 {
        0 => {
            let server = start("echo oops >&2; exit 1");
            server.process.exited().await;
            assert_eq!(stop(server.process, &PATIENT_LADDER).await.survivors, 0);
        }
        1 => {
            let server = start("cat");
            drop(server.stdin);
            assert_eq!(stop(server.process, &PATIENT_LADDER).await.survivors, 0);
        }
        2 => {
            let mut server = start("setsid sleep 1000 & echo ready; exec sleep 1000");
            server.says().await;
            assert_eq!(stop(server.process, &SHORT_LADDER).await.survivors, 0);
        }
        _ => drop(start("sleep 1000 & sleep 1000")),
    }
    // Lets the tasks of this cycle see its end and go.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children_in_state(wanted: char) -> Vec<i32> {
    let me = std::process::id().cast_signed();
    processes()
        .into_iter()
        .filter(|&pid| stat(pid) == Some((wanted, me)))
        .collect()
}
