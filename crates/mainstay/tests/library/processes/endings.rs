//! However a server ends, its whole tree ends with it: the children it forked, those that fled from its session, and
//! the server itself when it ignores the end of its input, SIGTERM, or everything.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay::config::{ServerBuilder, StdioTarget};
use mainstay::{Fleet, Server, ServerConfig, StateKind};
use mainstay_lifecycle::WhenSpent;
use mainstay_testkit::{Child, Fault, FaultyServer, Signal, Step, clock};
use serde_json::json;
use tokio::task::spawn_blocking;

use mainstay_testkit::fleet::{LONG, Stage, quick};

const NOBODY: [i32; 0] = [];

/// How many of the stubborn servers have a child.
const CHILDREN: usize = 3;

/// Servers that do not want to end, each in its own way.
fn stubborn() -> [(&'static str, FaultyServer); 7] {
    let plain = Child::default();
    let clinging = Child {
        ignores_term: true,
        holds_pipes: true,
        ..plain
    };
    let fled = Child {
        daemon: true,
        ignores_term: true,
        ..plain
    };
    let with = |child| FaultyServer::new().on(Step::Start, Fault::Spawn(child));
    let at_eof = |fault| FaultyServer::new().on(Step::Eof, fault);
    [
        ("forks", with(plain)),
        ("forks-and-clings", with(clinging)),
        ("forks-twice-and-flees", with(fled)),
        ("ignores-eof", at_eof(Fault::Hang)),
        ("ignores-eof-and-term", at_eof(Fault::Hang).ignores_term()),
        ("freezes", at_eof(Fault::Signal(Signal::Stop))),
        (
            "freezes-and-ignores-term",
            at_eof(Fault::Signal(Signal::Stop))
                .on(Step::Eof, Fault::Hang)
                .ignores_term(),
        ),
    ]
}

fn configured(
    stage: &Stage,
    change: impl Fn(ServerBuilder<StdioTarget>) -> ServerBuilder<StdioTarget>,
) -> Vec<ServerConfig> {
    let server = |(name, server)| change(stage.server(name, server)).build().unwrap();
    stubborn().map(server).into()
}

async fn connected(stage: &Stage) -> Fleet {
    let fleet = Fleet::builder().start(configured(stage, |server| server));
    for server in fleet.servers() {
        server.wait_connected(LONG).await.unwrap();
    }
    stage.cast(CHILDREN).await;
    fleet
}

async fn each(fleet: &Fleet, what: impl AsyncFn(&Server)) {
    for server in fleet.servers() {
        what(&server).await;
    }
}

async fn reaches(server: &Server, state: StateKind) {
    let reached = server.wait_until(LONG, |status| status.state == state).await;
    assert!(reached.is_some(), "{:?}", server.status());
}

#[tokio::test]
async fn a_disabled_server_leaves_nothing_of_its_tree() {
    let stage = Stage::new();
    let fleet = connected(&stage).await;
    each(&fleet, async |server| server.disable().await.unwrap()).await;
    each(&fleet, async |server| reaches(server, StateKind::Disabled).await).await;
    assert_eq!(stage.tree().pids(), NOBODY);
}

#[tokio::test]
async fn a_restarted_server_leaves_nothing_of_its_old_tree() {
    let stage = Stage::new();
    let fleet = connected(&stage).await;
    let old = stage.cast(CHILDREN).await;
    assert_eq!(old.alive().len(), old.len());
    let before: Vec<_> = fleet
        .servers()
        .iter()
        .map(|server| server.status().generation)
        .collect();
    each(&fleet, async |server| server.restart().await.unwrap()).await;
    for (server, before) in fleet.servers().iter().zip(before) {
        let again = server
            .wait_until(LONG, |now| {
                now.state == StateKind::Connected && now.generation > before
            })
            .await;
        assert!(again.is_some(), "{:?}", server.status());
    }
    assert_eq!(old.alive(), NOBODY);
    fleet.close(LONG).await;
    assert_eq!(stage.tree().pids(), NOBODY);
}

#[tokio::test]
async fn a_removed_server_leaves_nothing_of_its_tree() {
    let stage = Stage::new();
    let fleet = connected(&stage).await;
    let changes = fleet.apply([]).await;
    assert_eq!(changes.removed.len(), stubborn().len());
    assert!(
        stage.tree().wait_until_gone_async(LONG).await,
        "{:?}",
        stage.tree().pids()
    );
}

#[tokio::test]
async fn a_server_too_slow_to_start_leaves_nothing_of_its_tree() {
    let stage = Stage::new();
    let mute = |(name, server): (_, FaultyServer)| {
        let mut once = quick();
        once.budget = NonZeroU32::MIN;
        once.when_spent = WhenSpent::GiveUp;
        let server = stage.server(
            name,
            server
                .on(Step::Discover, Fault::NoAnswer)
                .on(Step::Initialize, Fault::NoAnswer),
        );
        server
            .startup_timeout(Duration::from_secs(2))
            .policy(once)
            .build()
            .unwrap()
    };
    let fleet = Fleet::builder().start(stubborn().map(mute));
    each(&fleet, async |server| {
        reaches(server, StateKind::PermanentlyFailed).await;
    })
    .await;
    each(&fleet, async |server| {
        let message = server.status().last_error.clone().unwrap().message.clone();
        assert!(message.contains("no sign of life"), "{message}");
    })
    .await;
    assert!(
        stage.tree().wait_until_gone_async(LONG).await,
        "{:?}",
        stage.tree().pids()
    );
    assert_eq!(stage.ledger.pids().len(), stubborn().len());
}

#[tokio::test]
async fn a_server_stopped_while_it_starts_leaves_nothing_of_its_tree() {
    let stage = Stage::new();
    let mute = |(name, server): (_, FaultyServer)| {
        let server = server.on(Step::Initialize, Fault::NoAnswer);
        stage.server(name, server).build().unwrap()
    };
    let fleet = Fleet::builder().start(stubborn().map(mute));
    let asked = |words: &str| stage.ledger.count(words) >= stubborn().len();
    assert!(
        stage
            .ledger
            .wait_for_async(|_| asked("initialize 2025-11-25"), LONG)
            .await,
        "{:?}",
        stage.ledger.lines()
    );
    stage.cast(CHILDREN).await;
    each(&fleet, async |server| server.disable().await.unwrap()).await;
    each(&fleet, async |server| reaches(server, StateKind::Disabled).await).await;
    assert_eq!(stage.tree().pids(), NOBODY);
}

#[tokio::test]
async fn a_server_that_exits_by_itself_leaves_nothing_of_its_tree() {
    let stage = Stage::new();
    let fleet = connected(&stage).await;
    let old = stage.cast(CHILDREN).await;
    each(&fleet, async |server| {
        let generation = server.status().generation;
        let exited = server.call("crash", &json!({ "code": 0 })).await;
        assert!(exited.is_err());
        let again = server
            .wait_until(LONG, |now| {
                now.state == StateKind::Connected && now.generation > generation
            })
            .await;
        assert!(again.is_some(), "{:?}", server.status());
    })
    .await;
    assert_eq!(old.alive(), NOBODY);
    fleet.close(LONG).await;
    assert_eq!(stage.tree().pids(), NOBODY);
}

#[tokio::test]
async fn a_closed_fleet_leaves_nothing_and_takes_as_long_as_its_slowest_server() {
    let stage = Stage::new();
    let fleet = connected(&stage).await;
    // One of them takes four seconds, four take two: one after the other would be over twelve.
    let report = clock::within(Duration::from_secs(9), fleet.close(LONG)).await;
    assert_eq!(stage.tree().pids(), NOBODY);
    let mut killed: Vec<_> = report.killed().map(|server| server.server.as_str()).collect();
    killed.sort_unstable();
    assert_eq!(killed, ["freezes-and-ignores-term", "ignores-eof-and-term"]);
}

#[tokio::test]
async fn a_dropped_fleet_leaves_nothing() {
    let stage = Stage::new();
    drop(connected(&stage).await);
    assert!(
        stage.tree().wait_until_gone_async(LONG).await,
        "{:?}",
        stage.tree().pids()
    );
}

#[tokio::test]
async fn a_close_in_a_hurry_leaves_nothing_either() {
    for within in [Duration::ZERO, Duration::from_millis(100)] {
        let stage = Stage::new();
        let fleet = connected(&stage).await;
        let tree = stage.tree();
        // Sooner than the 4 s after which the whole ladder would have come to its end.
        let (report, gone) = clock::within(Duration::from_millis(3500), async {
            let report = fleet.close(within).await;
            let gone = spawn_blocking(move || tree.wait_until_gone(LONG));
            (report, gone.await.unwrap())
        })
        .await;
        assert_eq!(report.servers.len(), stubborn().len());
        assert!(gone, "{within:?}: {:?}", stage.tree().pids());
    }
}

#[test]
fn a_runtime_that_shuts_down_leaves_nothing() {
    let stage = Stage::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let fleet = runtime.block_on(connected(&stage));
    drop(runtime);
    assert!(stage.tree().wait_until_gone(LONG), "{:?}", stage.tree().pids());
    drop(fleet);
}
