//! A server that is slow to start is left alone as long as it gives signs of life, and has no second one beside it.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay::{Fleet, Policy, StateKind};
use mainstay_lifecycle::WhenSpent;
use mainstay_testkit::{Fault, FaultyServer, Step};

use crate::support::{LONG, Stage, quick};

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
    let slow = FaultyServer::new().on(Step::Start, Fault::Delay { ms: 20_000 });
    let server = stage
        .server("slow", slow)
        .startup_timeout(Duration::from_secs(2))
        .policy(once());
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let failed = fleet
        .server("slow")
        .unwrap()
        .wait_until(Duration::from_secs(10), |status| {
            status.state == StateKind::PermanentlyFailed
        })
        .await
        .expect("it is given up long before it would be ready");
    assert!(failed.last_error.unwrap().message.contains("no sign of life"));
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
    let trouble = failed.last_error.unwrap();
    assert!(trouble.message.contains("not ready"), "{trouble}");
    assert!(!trouble.stderr.is_empty(), "what it wrote meanwhile is told");
    assert!(stage.tree().wait_until_gone_async(LONG).await);
}
