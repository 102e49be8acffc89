//! A fleet under many callers and an adversary that kills, freezes, thaws, restarts, disables, enables, removes, adds and
//! replaces its servers. Whatever the adversary does, the fleet keeps its word: see [`verdict`].
//!
//! `MAINSTAY_CHAOS_SECONDS` and `MAINSTAY_CHAOS_SEED` ask for another run; the seed decides what the adversary and the
//! callers do, the machine decides when.

mod adversary;
mod callers;
mod dice;
#[path = "../support/processes.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of processes, which need more of it"
)]
mod support;
mod verdict;
mod witness;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use mainstay::{CallOptions, Fleet, Policy, StateKind};
use mainstay_lifecycle::Probe;
use mainstay_testkit::{FaultyServer, Ledger, Speaks, procfs};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::watch;

use adversary::Adversary;
use callers::Made;
use support::{LONG, Stage, quick};
use verdict::Evidence;

const SERVERS: usize = 20;
const CALLERS: usize = 64;
const SECONDS: u64 = 30;
const SEED: u64 = 1;

/// The first so many servers are never disabled, so their tools are in the catalog at every moment.
const NEVER_DISABLED: usize = 5;

/// The last so many servers are never called, so that nothing but their probes finds them frozen.
const NEVER_CALLED: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fleet_keeps_its_word_in_chaos() {
    let seed = setting("MAINSTAY_CHAOS_SEED", SEED);
    let lasts = Duration::from_secs(setting("MAINSTAY_CHAOS_SECONDS", SECONDS));
    println!("chaos for {lasts:?} with seed {seed}");

    let stage = Stage::new();
    let ledgers: Vec<_> = (0..SERVERS).map(|_| Ledger::temporary()).collect();
    let before = Held::after_a_first_fleet(&stage).await;

    let version = |n: usize, version: usize| {
        let speaks = [Speaks::Legacy, Speaks::Both][n % 2];
        let server = FaultyServer::new().script(|script| script.speaks(speaks));
        let config = stage.server_with(&name(n), server, &ledgers[n]);
        let config = config.env("VERSION", version.to_string());
        config.policy(impatient()).build().unwrap()
    };
    let fleet = Fleet::builder().start((0..SERVERS).map(|n| version(n, 0)));
    let (events, hearing) = witness::of_events(&fleet);
    for server in fleet.servers() {
        server.wait_connected(LONG).await.unwrap();
    }
    let (over, chaos) = watch::channel(false);
    let readers = witness::of_catalog(&fleet, chaos.clone());
    let sleeper = witness::of_time(chaos.clone());
    let callers: Vec<_> = (0..CALLERS)
        .map(|n| tokio::spawn(callers::call_until_over(fleet.clone(), n, seed, chaos.clone())))
        .collect();

    let mut adversary = Adversary::new(&fleet, stage.tree(), seed, &version);
    adversary.rage(Instant::now() + lasts).await;
    adversary.relent().await;
    let healed = Instant::now();
    for server in fleet.servers() {
        let back = server
            .wait_until(LONG, |status| status.state == StateKind::Connected)
            .await;
        assert!(back.is_some(), "not back by itself: {:?}", server.status());
    }
    let healed = healed.elapsed();
    adversary.freeze_for_good(SERVERS - 1).await;

    over.send_replace(true);
    let mut calls: Vec<Made> = Vec::new();
    for caller in callers {
        calls.extend(caller.await.unwrap());
    }
    let catalogs_read = readers.await.unwrap();
    let machine_late = sleeper.await.unwrap();
    for server in fleet.servers() {
        let options = CallOptions::default().timeout(LONG);
        let answer = server.call("echo", &json!({ "key": "last" }), options).await;
        assert!(answer.is_ok(), "{}: {answer:?}", server.name());
    }
    let report = fleet.close(LONG).await;
    assert!(report.servers.iter().all(|server| !server.overdue), "{report:?}");
    let _ = hearing.send(());
    let events = events.await.unwrap();

    assert_eq!(stage.tree().pids(), [] as [i32; 0], "processes are left");
    assert_eq!(procfs::zombie_children(), [] as [i32; 0], "zombies are left");
    drop(fleet);
    before.is_held_again().await;

    Evidence {
        calls,
        events,
        ledgers: ledgers.iter().map(Ledger::lines).collect(),
        deeds: adversary.deeds(),
        catalogs_read,
        machine_late,
        healed,
    }
    .judge();
}

fn name(server: usize) -> String {
    format!("s{server:02}")
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| {
        value.parse().unwrap_or_else(|_| panic!("{name} is no number"))
    })
}

/// A silent server is found out and replaced within the run.
fn impatient() -> Policy {
    let mut policy = Policy {
        probe: Some(Probe {
            after_silence: Duration::from_millis(300),
            timeout: Duration::from_millis(400),
            misses: NonZeroU32::new(2).unwrap(),
        }),
        relist_pause: Duration::from_millis(50),
        ..quick()
    };
    policy.limits.list = Duration::from_secs(2);
    policy
}

/// What this process holds.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    tasks: usize,
}

impl Held {
    fn now() -> Self {
        Self {
            descriptors: procfs::open_descriptors(),
            tasks: Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// A first fleet comes and goes, and leaves what every later one finds there: the guardian, the signal handler.
    async fn after_a_first_fleet(stage: &Stage) -> Self {
        let fleet = Fleet::builder().start([stage.server("first", FaultyServer::new()).build().unwrap()]);
        fleet.servers()[0].wait_connected(LONG).await.unwrap();
        fleet.close(LONG).await;
        drop(fleet);
        tokio::time::sleep(Duration::from_millis(300)).await;
        Self::now()
    }

    async fn is_held_again(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let now = Self::now();
            if now.descriptors <= self.descriptors && now.tasks <= self.tasks {
                return;
            }
            assert!(Instant::now() < deadline, "{self:?} before, {now:?} after");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
