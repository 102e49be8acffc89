//! What tests of real processes share: a stage whose processes can be found wherever they flee, and a process of its own
//! for a test that counts what a whole process holds.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mainstay::config::{ServerBuilder, StdioTarget};
use mainstay::{Policy, ServerConfig};
use mainstay_lifecycle::Backoff;
use mainstay_testkit::procfs::{ProcTree, is_alive};
use mainstay_testkit::{FaultyServer, Ledger, poll};

/// Longer than anything takes on a busy machine; reached only by a test that fails.
pub(crate) const LONG: Duration = poll::LIMIT;

const MARK: &str = "MAINSTAY_TEST_STAGE";
const ALONE: &str = "MAINSTAY_TEST_ALONE";

/// A ledger and a mark that all servers of one test share.
pub(crate) struct Stage {
    mark: String,
    pub(crate) ledger: Ledger,
}

impl Stage {
    pub(crate) fn new() -> Self {
        static STAGES: AtomicU32 = AtomicU32::new(0);
        let stage = STAGES.fetch_add(1, Ordering::Relaxed);
        Self::marked(format!("{}.{stage}", std::process::id()))
    }

    pub(crate) fn marked(mark: String) -> Self {
        Self {
            mark,
            ledger: Ledger::temporary(),
        }
    }

    /// A server of this stage, kept with little patience.
    pub(crate) fn server(&self, name: &str, server: FaultyServer) -> ServerBuilder<StdioTarget> {
        self.server_with(name, server, &self.ledger)
    }

    /// A server of this stage with a ledger of its own.
    pub(crate) fn server_with(
        &self,
        name: &str,
        server: FaultyServer,
        ledger: &Ledger,
    ) -> ServerBuilder<StdioTarget> {
        let server = server.ledger(ledger).env_var(MARK, &self.mark);
        configured(name, &server).policy(quick())
    }

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// All processes of this stage that are alive.
    pub(crate) fn tree(&self) -> ProcTree {
        ProcTree::marked(MARK, &self.mark)
    }

    /// The servers and their children so far, once there are so many children.
    pub(crate) async fn cast(&self, children: usize) -> Cast {
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

/// Some processes of a stage.
pub(crate) struct Cast(BTreeSet<i32>);

impl Cast {
    pub(crate) fn alive(&self) -> Vec<i32> {
        self.0.iter().copied().filter(|&pid| is_alive(pid)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

pub(crate) fn configured(name: &str, server: &FaultyServer) -> ServerBuilder<StdioTarget> {
    let config = ServerConfig::stdio(name, server.command()).args(server.args());
    server
        .env()
        .into_iter()
        .fold(config, |config, (key, value)| config.env(key, value))
}

/// Starts again and again, almost at once.
pub(crate) fn quick() -> Policy {
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
pub(crate) fn is_alone(test: &str) -> bool {
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
pub(crate) fn itself(test: &str) -> Command {
    let binary = std::env::current_exe().expect("know the path of this test");
    let mut command = Command::new(binary);
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, test);
    command
}
