//! SIGKILL gives a program no chance to stop its servers; the guardian does it instead.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use mainstay::Fleet;
use mainstay_testkit::guarded::comes_true_as_promised;
use mainstay_testkit::{self as testkit, Fault, FaultyServer, Ledger, Step};

use mainstay_testkit::fleet::{LONG, Stage, is_alone, itself};

const VICTIM: &str = "processes::killed::the_program_that_is_killed";
const READY: &str = "MAINSTAY_TEST_READY";
const OUTER: &str = "MAINSTAY_TEST_OUTER";

/// A second on a quiet machine; the rest is for a busy one.
const SOON: Duration = Duration::from_secs(4);

#[test]
fn nothing_survives_the_death_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let stage = Stage::marked(format!("{}.outer", std::process::id()));
    let ready = directory.path().join("ready");
    let mut victim = Victim::start(&stage, &ready);
    let file = Ledger::at(&ready);
    assert!(
        file.wait_for(|ledger| ledger.count("ready") == 1, LONG),
        "the victim never came up"
    );
    let there = stage.tree().pids();
    assert!(there.len() > victims().len(), "only {there:?} run");

    let began = Instant::now();
    victim.kill();
    let gone = comes_true_as_promised(SOON, || stage.tree().pids().is_empty());
    println!("gone after {:?}", began.elapsed());
    assert!(gone, "{:?} of {there:?} survive", stage.tree().pids());
}

/// Not a test of its own: what the test above kills. A fleet of servers that do not want to die, one of them still
/// starting.
#[tokio::test]
async fn the_program_that_is_killed() {
    let Ok(ready) = std::env::var(READY) else { return };
    assert!(is_alone(VICTIM));
    let stage = Stage::marked(std::env::var(OUTER).unwrap());
    let servers = victims().map(|(name, server)| stage.server(name, server).build().unwrap());
    let fleet = Fleet::builder().start(servers);
    for server in fleet
        .servers()
        .iter()
        .filter(|server| server.name() != "starting")
    {
        server.wait_connected(LONG).await.unwrap();
    }
    stage.cast(2).await;
    let asked = |ledger: &Ledger| ledger.count("initialize 2025-11-25") >= victims().len();
    assert!(stage.ledger.wait_for_async(asked, LONG).await);
    fs::write(ready, "ready\n").unwrap();
    tokio::time::sleep(10 * LONG).await;
}

fn victims() -> [(&'static str, FaultyServer); 4] {
    let fled = testkit::Child {
        daemon: true,
        ignores_term: true,
        ..testkit::Child::default()
    };
    let clinging = testkit::Child {
        ignores_term: true,
        holds_pipes: true,
        ..testkit::Child::default()
    };
    let stubborn = || FaultyServer::new().on(Step::Eof, Fault::Hang).ignores_term();
    [
        ("stubborn", stubborn()),
        ("fled", stubborn().on(Step::Start, Fault::Spawn(fled))),
        ("clinging", stubborn().on(Step::Start, Fault::Spawn(clinging))),
        ("starting", stubborn().on(Step::Initialize, Fault::StopReading)),
    ]
}

/// The program, dead at the end of the test in any case.
struct Victim(Child);

impl Victim {
    fn start(stage: &Stage, ready: &Path) -> Self {
        let mut command = itself(VICTIM);
        command.env(READY, ready).env(OUTER, stage.mark());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
