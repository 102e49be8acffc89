//! A stage whose processes can be found wherever they flee, and a process of its own for a test that counts what a whole
//! process holds.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use mainstay::config::{ServerBuilder, StdioTarget};
use mainstay::lifecycle::Backoff;
use mainstay::{Policy, ServerConfig};

use super::LONG;
use crate::faulty_server::FaultyServer;
use crate::ledger::Ledger;
use crate::poll;
use crate::procfs::{ProcTree, is_alive};

const MARK: &str = "MAINSTAY_TEST_STAGE";
const ALONE: &str = "MAINSTAY_TEST_ALONE";

/// How long the processes of a test may take to end: in the test of this limit nothing ends.
const END_LIMIT: Duration = if cfg!(test) {
    Duration::from_secs(1)
} else {
    poll::LIMIT
};

/// A ledger and a mark that all servers of one test share.
pub struct Stage {
    mark: String,
    /// What its servers did.
    pub ledger: Ledger,
}

impl Stage {
    /// A stage with a mark of its own.
    #[expect(clippy::new_without_default, reason = "each stage is another one")]
    pub fn new() -> Self {
        static STAGES: AtomicU32 = AtomicU32::new(0);
        let stage = STAGES.fetch_add(1, Ordering::Relaxed);
        Self::marked(format!("{}.{stage}", std::process::id()))
    }

    /// A stage with this mark, which another process may share.
    pub fn marked(mark: String) -> Self {
        Self {
            mark,
            ledger: Ledger::temporary(),
        }
    }

    /// A server of this stage, kept with little patience.
    pub fn server(&self, name: &str, server: FaultyServer) -> ServerBuilder<StdioTarget> {
        self.server_with(name, server, &self.ledger)
    }

    /// A server of this stage with a ledger of its own.
    pub fn server_with(
        &self,
        name: &str,
        server: FaultyServer,
        ledger: &Ledger,
    ) -> ServerBuilder<StdioTarget> {
        let server = server.ledger(ledger).env_var(MARK, &self.mark);
        configured(name, &server).policy(quick())
    }

    /// What marks its processes.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// All processes of this stage that are alive.
    pub fn tree(&self) -> ProcTree {
        ProcTree::marked(MARK, &self.mark)
    }

    /// The servers and their children so far, once there are so many children.
    pub async fn cast(&self, children: usize) -> Cast {
        let all_there = self
            .ledger
            .wait_for_async(|ledger| ledger.children().len() >= children, LONG)
            .await;
        assert!(all_there, "{:?}", self.ledger.lines());
        Cast(
            self.ledger
                .pids()
                .into_iter()
                .chain(self.ledger.children())
                .collect(),
        )
    }
}

/// No test leaves a process running. Nothing of its fleet can run on the runtime of this thread meanwhile, so a test first closes
/// its fleet or waits for the end of its processes.
impl Drop for Stage {
    fn drop(&mut self) {
        if !thread::panicking() {
            let is_gone = self.tree().wait_until_gone(END_LIMIT);
            assert!(is_gone, "left running: {:?}", self.tree().pids());
        }
    }
}

/// Some processes of a stage.
pub struct Cast(BTreeSet<i32>);

impl Cast {
    /// Those that still run.
    pub fn alive(&self) -> Vec<i32> {
        self.0.iter().copied().filter(|&pid| is_alive(pid)).collect()
    }

    /// How many there are, dead or alive.
    #[expect(clippy::len_without_is_empty, reason = "there is no use for an empty one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The configuration that starts this server.
pub fn configured(name: &str, server: &FaultyServer) -> ServerBuilder<StdioTarget> {
    let config = ServerConfig::stdio(name, server.command()).args(server.args());
    server
        .env()
        .into_iter()
        .fold(config, |config, (key, value)| config.env(key, value))
}

/// Starts again and again, almost at once.
pub fn quick() -> Policy {
    let mut policy = Policy {
        backoff: Backoff::new(Duration::from_millis(2), Duration::from_millis(20)),
        budget: NonZeroU32::MAX,
        ..Policy::default()
    };
    policy.bucket.size = NonZeroU32::MAX;
    policy
}

/// Whether this is the process that a test got for itself; if not, runs the test in one, and fails as it does.
/// `test` is its full name.
pub fn is_alone(test: &str) -> bool {
    if std::env::var(ALONE).is_ok_and(|alone| alone == test) {
        return true;
    }
    let run = itself(test).output().expect("run this test binary");
    println!("{}", String::from_utf8_lossy(&run.stdout));
    assert!(
        run.status.success(),
        "{test} failed in a process of its own ({}):\n{}",
        run.status,
        String::from_utf8_lossy(&run.stderr)
    );
    false
}

/// This test binary, told to run one test as the process that is that test's alone.
pub fn itself(test: &str) -> Command {
    let binary = std::env::current_exe().expect("know the path of this test");
    let mut command = Command::new(binary);
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, test);
    command
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::{MARK, Stage};

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    #[should_panic(expected = "left running")]
    fn a_stage_that_leaves_a_process_running_fails_its_test() {
        let stage = Stage::new();
        let sleeper = Command::new("sleep").arg("600").env(MARK, stage.mark()).spawn();
        let _sleeper = Sleeper(sleeper.expect("it starts"));
        drop(stage);
    }
}
