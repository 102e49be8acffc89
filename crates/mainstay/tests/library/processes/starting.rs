//! A server that is slow to start is left alone as long as it gives signs of life, and has no second one beside it.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use mainstay::server::StartStage;
use mainstay::{Fleet, Policy, StateKind};
use mainstay_lifecycle::WhenSpent;
use mainstay_testkit::{Fault, FaultyServer, Step, Work};

use mainstay_testkit::fleet::{LONG, Stage, quick};

fn once() -> Policy {
    Policy {
        budget: NonZeroU32::MIN,
        when_spent: WhenSpent::GiveUp,
        ..quick()
    }
}

#[tokio::test]
async fn a_slow_server_that_writes_to_stderr_is_left_alone_far_beyond_its_startup_timeout() {
    let stage = Stage::new();
    let slow = FaultyServer::new().on(
        Step::Start,
        Fault::Chatter {
            ms: 6000,
            every_ms: 100,
        },
    );
    let server = stage
        .server("slow", slow)
        .startup_timeout(Duration::from_secs(2))
        .policy(once());
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let status = fleet.server("slow").unwrap().wait_connected(LONG).await.unwrap();
    assert_eq!((status.starts, status.attempt), (1, 0));
    assert_eq!(stage.ledger.pids().len(), 1, "a second one was started beside it");
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_slow_server_that_is_silent_is_ended_at_its_startup_timeout() {
    let stage = Stage::new();
    let slow = FaultyServer::new().on(Step::Start, Fault::Delay { ms: 600_000 });
    let server = stage
        .server("slow", slow)
        .startup_timeout(Duration::from_secs(2))
        .policy(once());
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let failed = fleet
        .server("slow")
        .unwrap()
        .wait_until(LONG, |status| status.state == StateKind::PermanentlyFailed)
        .await
        .expect("it is given up long before it would be ready");
    let message = failed.last_error.unwrap().message.clone();
    assert!(message.contains("no sign of life"), "{message}");
    assert!(
        message.contains("`startup_timeout`"),
        "it names the remedy: {message}"
    );
    assert!(stage.tree().wait_until_gone_async(LONG).await);
}

#[tokio::test]
async fn a_slow_server_is_ended_at_the_hard_limit_however_much_it_writes() {
    let stage = Stage::new();
    let slow = FaultyServer::new().on(
        Step::Start,
        Fault::Chatter {
            ms: 60_000,
            every_ms: 50,
        },
    );
    let mut policy = once();
    policy.limits.open = Duration::from_secs(4);
    let server = stage
        .server("slow", slow)
        .startup_timeout(Duration::from_secs(2))
        .policy(policy);
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let failed = fleet
        .server("slow")
        .unwrap()
        .wait_until(LONG, |status| status.state == StateKind::PermanentlyFailed)
        .await
        .expect("it is given up at the hard limit");
    let failure = failed.last_error.unwrap();
    assert!(failure.message.contains("not ready"), "{failure}");
    assert!(!failure.stderr.is_empty(), "what it wrote meanwhile is reported");
    assert!(stage.tree().wait_until_gone_async(LONG).await);
}

/// One that works in silence for four times its `startup_timeout`, and then comes up.
async fn comes_up_after_silent(work: Work) {
    let stage = Stage::new();
    let installing = FaultyServer::new().on(Step::Start, Fault::Work { ms: 8000, of: work });
    let server = stage
        .server("cold", installing)
        .startup_timeout(Duration::from_secs(2))
        .policy(once());
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let server = fleet.server("cold").unwrap();
    let status = server.wait_connected(LONG).await.unwrap();
    assert_eq!((status.starts, status.attempt), (1, 0));
    assert!(status.start.is_none(), "{:?}", status.start);
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_silent_installer_that_uses_processor_time_is_left_alone() {
    comes_up_after_silent(Work::Processor).await;
}

#[tokio::test]
async fn a_silent_installer_that_writes_to_disk_is_left_alone() {
    comes_up_after_silent(Work::Disk).await;
}

#[tokio::test]
async fn a_silent_installer_that_starts_children_is_left_alone() {
    comes_up_after_silent(Work::Children).await;
}

#[tokio::test]
async fn what_a_starting_tree_does_is_shown_until_it_is_up() {
    let stage = Stage::new();
    let installing = FaultyServer::new().on(
        Step::Start,
        Fault::Work {
            ms: 6000,
            of: Work::Processor,
        },
    );
    // A shell is no package runner by itself; what it runs makes it one.
    let script = format!(r#"npx() {{ "$@"; }}; npx {} "$@""#, installing.command());
    let args = ["-c".to_owned(), script, "sh".to_owned()];
    let env = installing.env();
    let server =
        mainstay::ServerConfig::stdio("cold", "/bin/sh").args(args.into_iter().chain(installing.args()));
    let server = env
        .into_iter()
        .fold(server, |server, (key, value)| server.env(key, value));
    let server = server.startup_timeout(Duration::from_secs(2)).build().unwrap();
    assert!(server.is_package_runner());
    let fleet = Fleet::builder().start([server]);
    let server = fleet.server("cold").unwrap();
    let working = server
        .wait_until(LONG, |status| {
            let start = status.start.as_ref();
            start.is_some_and(|start| start.program.as_deref() == Some("faulty-server"))
        })
        .await
        .expect("its work is seen");
    let start = working.start.unwrap();
    // The runner only waits for it: it is the server that starts.
    assert_eq!(start.stage, StartStage::Starting);
    assert_eq!(start.to_string(), "starting: faulty-server");
    let up = server.wait_connected(LONG).await.unwrap();
    assert_eq!(up.start, None);
    fleet.close(LONG).await;
    drop(stage);
}

#[tokio::test]
async fn a_package_runner_at_work_is_shown_as_installing() {
    let script = "npx() { while :; do :; done; }; npx";
    let server = mainstay::ServerConfig::stdio("cold", "/bin/sh").args(["-c", script]);
    let server = server.startup_timeout(Duration::from_secs(2)).build().unwrap();
    let fleet = Fleet::builder().start([server]);
    let server = fleet.server("cold").unwrap();
    let installing = server
        .wait_until(LONG, |status| {
            let start = status.start.as_ref();
            start.is_some_and(|start| start.to_string() == "installing: sh")
        })
        .await;
    installing.expect("it is seen to install");
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_start_that_is_busy_to_the_end_of_its_time_is_said_to_be_busy() {
    let stage = Stage::new();
    let endless = FaultyServer::new().on(
        Step::Start,
        Fault::Work {
            ms: 60_000,
            of: Work::Processor,
        },
    );
    let mut policy = once();
    policy.limits.open = Duration::from_secs(5);
    let server = stage
        .server("cold", endless)
        .startup_timeout(Duration::from_secs(2))
        .policy(policy);
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let server = fleet.server("cold").unwrap();
    let failed = server
        .wait_until(LONG, |status| status.state == StateKind::PermanentlyFailed)
        .await
        .expect("it is given up at the hard limit");
    let message = failed.last_error.unwrap().message.clone();
    assert!(message.starts_with("not ready 5s after its start"), "{message}");
    assert!(message.contains("still at work (faulty-server)"), "{message}");
    assert!(message.contains("`startup_timeout`"), "{message}");
    assert!(stage.tree().wait_until_gone_async(LONG).await);
}

#[tokio::test]
async fn a_server_that_has_read_its_input_and_stays_silent_is_shown_as_unanswered_after_5_s() {
    let stage = Stage::new();
    let mute = FaultyServer::new()
        .on(Step::Discover, Fault::NoAnswer)
        .on(Step::Initialize, Fault::NoAnswer);
    let began = Instant::now();
    let fleet = Fleet::builder().start([stage.server("mute", mute).policy(once()).build().unwrap()]);
    let server = fleet.server("mute").unwrap();
    let shown = server.wait_until(LONG, |status| {
        let start = status.start.as_ref();
        start.is_some_and(|start| start.stage == StartStage::Unanswered)
    });
    assert!(shown.await.is_some(), "{:?}", server.status());
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
    fleet.close(LONG).await;
}
