//! A fleet of servers on stdio, over HTTP in both eras and over HTTP+SSE, under many callers and an adversary that kills,
//! freezes, thaws, restarts, disables, enables, removes, adds and replaces its servers, and cuts and holds the network.
//! Whatever the adversary does, the fleet keeps its word: see [`verdict`].
//!
//! `MAINSTAY_CHAOS_SECONDS` and `MAINSTAY_CHAOS_SEED` ask for another run; the seed decides what the adversary and the
//! callers do, the machine decides when.

mod callers;
mod verdict;
mod witness;

use std::time::{Duration, Instant};

use mainstay::{CallOptions, Fleet, ServerConfig, StateKind};
use mainstay_testkit::chaos::{Adversary, Cast, Held, Lateness, setting};
use mainstay_testkit::fleet::{LONG, Stage};
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::{FaultyServer, Script, procfs};
use serde_json::json;
use tokio::sync::watch;

use callers::Made;
use verdict::Evidence;

const SERVERS: usize = 24;
const CALLERS: usize = 64;
const SECONDS: u64 = 30;
const SEED: u64 = 1;

/// The last so many servers, of every kind, are never called, so that nothing but their probes finds them frozen.
const NEVER_CALLED: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fleet_keeps_its_word_in_chaos() {
    let seed = setting("MAINSTAY_CHAOS_SEED", SEED);
    let lasts = Duration::from_secs(setting("MAINSTAY_CHAOS_SECONDS", SECONDS));
    println!("chaos for {lasts:?} with seed {seed}");

    let stage = Stage::new();
    let before = after_a_first_fleet(&stage).await;
    let cast = Cast::assemble(stage, SERVERS).await;
    let fleet = Fleet::builder().start((0..SERVERS).map(|n| cast.config(n, 0)));
    let (events, watching) = witness::of_events(&fleet);
    for server in fleet.servers() {
        server.wait_connected(LONG).await.unwrap();
    }
    let (over, chaos) = watch::channel(false);
    let readers = witness::of_catalog(&fleet, chaos.clone());
    let sleeper = Lateness::watch();
    let callers: Vec<_> = (0..CALLERS)
        .map(|n| tokio::spawn(callers::call_until_over(fleet.clone(), n, seed, chaos.clone())))
        .collect();

    let mut adversary = Adversary::new(&fleet, &cast, seed);
    adversary.rage(Instant::now() + lasts).await;
    adversary.stop().await;
    let healed = Instant::now();
    for server in fleet.servers() {
        let back = server
            .wait_until(LONG, |status| status.state == StateKind::Connected)
            .await;
        assert!(back.is_some(), "not back by itself: {:?}", server.status());
    }
    let healed = healed.elapsed();
    adversary.freeze_for_good(SERVERS - NEVER_CALLED..SERVERS).await;

    over.send_replace(true);
    let mut calls: Vec<Made> = Vec::new();
    for caller in callers {
        calls.extend(caller.await.unwrap());
    }
    let catalogs_read = readers.await.unwrap();
    let machine_late = sleeper.worst().await;
    for server in fleet.servers() {
        let options = CallOptions::default().timeout(LONG);
        let answer = server
            .call("echo", &json!({ "key": "last" }))
            .options(options)
            .await;
        assert!(answer.is_ok(), "{}: {answer:?}", server.name());
    }
    let report = fleet.close(LONG).await;
    assert!(report.servers.iter().all(|server| !server.overdue), "{report:?}");
    let _ = watching.send(());
    let events = events.await.unwrap();

    assert_eq!(cast.stage().tree().pids(), [] as [i32; 0], "processes are left");
    let ledgers = cast.lines();
    let deeds = adversary.deeds();
    drop((fleet, adversary));
    drop(cast);
    assert_eq!(procfs::zombie_children(), [] as [i32; 0], "zombies are left");
    before.is_held_again().await;

    Evidence {
        calls,
        events,
        ledgers,
        deeds,
        catalogs_read,
        machine_late,
        healed,
    }
    .judge();
}

/// What is held when a first fleet has come and gone, and has left what every later one finds there: the guardian, the
/// signal handler.
async fn after_a_first_fleet(stage: &Stage) -> Held {
    let remote = FaultyHttpServer::start(Script::new(), HttpScript::new())
        .await
        .unwrap();
    let fleet = Fleet::builder().start([
        stage.server("first", FaultyServer::new()).build().unwrap(),
        ServerConfig::http("web", remote.url("/mcp")).build().unwrap(),
    ]);
    for server in fleet.servers() {
        server.wait_connected(LONG).await.unwrap();
    }
    fleet.close(LONG).await;
    drop((fleet, remote));
    Held::settled().await
}
