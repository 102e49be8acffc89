//! Only so many servers start at one time; the others wait for their turn, and nothing of them runs meanwhile.

use std::num::NonZeroUsize;
use std::time::Duration;

use mainstay::lifecycle::TimeLimits;
use mainstay::server::StartStage;
use mainstay::{Fleet, FleetBuilder, Policy, Server, StateKind, Status};
use mainstay_testkit::{Fault, FaultyServer, Ledger, Step, Work};
use serde_json::json;
use tokio::task::JoinSet;

use mainstay_testkit::fleet::{LONG, Stage};

fn starting(limit: usize) -> FleetBuilder {
    Fleet::builder().starts_at_once(NonZeroUsize::new(limit).unwrap())
}

/// One whose start keeps the processor busy for this long.
fn busy(ms: u64) -> FaultyServer {
    FaultyServer::new().on(
        Step::Start,
        Fault::Work {
            ms,
            of: Work::Processor,
        },
    )
}

fn is_waiting(status: &Status) -> bool {
    let start = status.start.as_ref();
    start.is_some_and(|start| start.stage == StartStage::Waiting)
}

/// Whether a server starts and has not answered yet.
fn has_its_turn(status: &Status) -> bool {
    let is_of_turn = |stage| !matches!(stage, StartStage::Waiting | StartStage::Listing);
    status.start.as_ref().is_some_and(|start| is_of_turn(start.stage))
}

async fn waiting(server: &Server) -> Status {
    let status = server.wait_until(LONG, is_waiting).await;
    status.unwrap_or_else(|| panic!("{:?}", server.status()))
}

#[tokio::test]
async fn no_more_servers_start_at_once_than_allowed_and_all_come_up() {
    let stage = Stage::new();
    let names = ["a", "b", "c", "d", "e", "f"];
    let servers = names.map(|name| stage.server(name, busy(700)).build().unwrap());
    let fleet = starting(2).start(servers);
    let mut watching = JoinSet::new();
    for name in names {
        let (fleet, server) = (fleet.clone(), fleet.server(name).unwrap());
        watching.spawn(async move {
            let mut most = 0;
            // At each change of this server, all of them are looked at.
            let connected = server.wait_until(LONG, |status| {
                let statuses = fleet.servers().into_iter().map(|server| server.status());
                most = most.max(statuses.filter(has_its_turn).count());
                status.state == StateKind::Connected
            });
            connected.await.expect("connected");
            most
        });
    }
    let most = watching.join_all().await.into_iter().max();
    assert_eq!(most, Some(2));
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_server_that_is_disabled_while_it_waits_for_its_turn_never_runs() {
    let stage = Stage::new();
    let first = stage.server("a", busy(3_000)).build().unwrap();
    let ledger = Ledger::temporary();
    let second = stage
        .server_with("b", FaultyServer::new(), &ledger)
        .build()
        .unwrap();
    let fleet = starting(1).start([first, second]);
    let second = fleet.server("b").unwrap();
    let status = waiting(&second).await;
    assert_eq!((status.state, status.pid), (StateKind::Connecting, None));
    second.disable().await.unwrap();
    fleet.server("a").unwrap().wait_connected(LONG).await.unwrap();
    assert_eq!(second.status().state, StateKind::Disabled);
    second.enable().await.unwrap();
    second.wait_connected(LONG).await.unwrap();
    assert_eq!(
        ledger.pids().len(),
        1,
        "it ran when it was enabled again, and not before"
    );
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_server_that_hangs_gives_its_turn_to_the_next_one_long_before_it_is_given_up() {
    let stage = Stage::new();
    let hangs = FaultyServer::new().on(Step::Start, Fault::Delay { ms: 600_000 });
    let hangs = stage.server("a", hangs).build().unwrap();
    let good = stage.server("b", FaultyServer::new()).build().unwrap();
    let fleet = starting(1).start([hangs, good]);
    let good = fleet.server("b").unwrap();
    waiting(&good).await;
    good.wait_connected(LONG).await.unwrap();
    let hangs = fleet.server("a").unwrap().status();
    assert_eq!((hangs.state, hangs.attempt), (StateKind::Connecting, 0));
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_server_that_waits_for_its_turn_beyond_its_limit_says_that_it_waited() {
    let stage = Stage::new();
    let hangs = FaultyServer::new().on(Step::Start, Fault::Delay { ms: 600_000 });
    let hangs = stage.server("a", hangs).build().unwrap();
    let ledger = Ledger::temporary();
    let policy = Policy {
        limits: TimeLimits {
            turn: Duration::from_millis(300),
            ..TimeLimits::default()
        },
        ..Policy::default()
    };
    let waits = stage
        .server_with("b", FaultyServer::new(), &ledger)
        .policy(policy);
    let fleet = starting(1).start([hangs, waits.build().unwrap()]);
    let waits = fleet.server("b").unwrap();
    let status = waits.wait_until(LONG, |status| status.last_error.is_some()).await;
    let status = status.unwrap_or_else(|| panic!("{:?}", waits.status()));
    let message = &status.last_error.unwrap().message;
    assert_eq!(message, "it waited in the start queue for more than 300ms");
    assert_eq!(ledger.pids().len(), 0, "it never ran");
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_server_that_a_call_waits_for_starts_before_those_that_came_first() {
    let stage = Stage::new();
    let ledger = Ledger::temporary();
    let first = stage.server("a", busy(3_000)).build().unwrap();
    let queued = ["b", "c", "d", "e"].map(|name| {
        let server = busy(500).env_var("MAINSTAY_TEST_NAME", name);
        stage.server_with(name, server, &ledger).build().unwrap()
    });
    let fleet = starting(1).start([first].into_iter().chain(queued));
    let wanted = fleet.server("e").unwrap();
    waiting(&wanted).await;
    let reply = wanted.call("echo", &json!({})).await;
    reply.expect("it is answered");
    let others: Vec<_> = ["b", "c", "d"]
        .map(|name| fleet.server(name).unwrap().status())
        .into_iter()
        .filter(|status| status.state == StateKind::Connected)
        .collect();
    assert_eq!(others.len(), 0, "{others:?}");
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_fleet_is_closed_while_servers_wait_for_their_turn() {
    let stage = Stage::new();
    let ledger = Ledger::temporary();
    let first = stage.server("a", busy(20_000)).build().unwrap();
    let second = stage
        .server_with("b", FaultyServer::new(), &ledger)
        .build()
        .unwrap();
    let fleet = starting(1).start([first, second]);
    waiting(&fleet.server("b").unwrap()).await;
    fleet.close(LONG).await;
    assert!(ledger.pids().is_empty());
    assert!(stage.tree().wait_until_gone_async(LONG).await);
}
