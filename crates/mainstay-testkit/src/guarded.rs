//! What comes true after a program was killed: its guardian ends what is left, and is a shell that takes its time.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// On a machine with too much to do everything takes longer, a guardian too: it is given the time in which another shell
/// goes twice as often through what a guardian goes through at most seven times.
const ROUNDS: u32 = 14;
const ROUND: &str = "sleep 0.05; grep -laF no-such-value /proc/[0-9]*/environ";

/// Whether the condition comes true within this time, or what a guardian needs on this machine where that is longer. Blocks the thread.
///
/// # Panics
/// When no shell can be started.
pub fn comes_true_as_promised(promised: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + promised;
    let mut rounds = 0;
    while !condition() {
        if rounds >= ROUNDS && Instant::now() > deadline {
            return false;
        }
        let mut round = Command::new("/bin/sh");
        let done = round
            .args(["-c", ROUND])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // No process is found, which is no success.
        let _found = done.status().expect("a shell starts");
        rounds += 1;
    }
    true
}
