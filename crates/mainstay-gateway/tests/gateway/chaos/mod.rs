//! A gateway in front of servers of every kind, with clients of every kind, under an adversary that kills, freezes, restarts,
//! disables, removes and replaces the servers, and cuts and holds the network to them. The clients list, call, subscribe, are
//! asked, cancel, leave, and break their own connections; each keeps one session through all of it.
//! Whatever happens, the gateway keeps its word: see [`verdict`].
//!
//! `MAINSTAY_CHAOS_SECONDS` and `MAINSTAY_CHAOS_SEED` ask for another run; the seed decides what every client does, the
//! machine decides when.

mod clients;
mod final_checks;
mod person;
mod running_gateway;
mod verdict;

use std::time::{Duration, Instant};

use mainstay::ServerConfig;
use mainstay_testkit::chaos::{Adversary, Cast, Held, Lateness, setting};
use mainstay_testkit::fleet::Stage;
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::{FaultyServer, Script, procfs};
use tokio::sync::watch;

use running_gateway::RunningGateway;
use verdict::Evidence;

const SERVERS: usize = 12;
const SECONDS: u64 = 20;
const SEED: u64 = 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_gateway_keeps_its_word_in_chaos() {
    let seed = setting("MAINSTAY_CHAOS_SEED", SEED);
    let lasts = Duration::from_secs(setting("MAINSTAY_CHAOS_SECONDS", SECONDS));
    println!("chaos for {lasts:?} with seed {seed}");

    let stage = Stage::new();
    let before = after_a_first_gateway(&stage).await;
    let cast = Cast::assemble(stage, SERVERS).await;
    let running = RunningGateway::open((0..SERVERS).map(|n| cast.config(n, 0))).await;
    let (over, chaos) = watch::channel(false);
    let machine = Lateness::watch();
    let people = running.people(seed, &chaos).await;
    let living: Vec<_> = people
        .into_iter()
        .map(|guest| tokio::spawn(guest.live(chaos.clone())))
        .collect();

    let fleet = running.gateway.fleet().clone();
    let mut adversary = Adversary::new(&fleet, &cast, seed);
    adversary.rage(Instant::now() + lasts).await;
    adversary.stop().await;
    final_checks::servers_are_back(&fleet).await;
    over.send_replace(true);
    let mut people = Vec::new();
    for life in living {
        people.push(life.await.unwrap());
    }
    final_checks::renewed(&fleet).await;
    for guest in &mut people {
        guest.finds_all_well().await;
    }
    let machine_late = machine.worst().await;

    let mut diaries = Vec::new();
    let mut totals = [0; 3];
    for guest in people {
        let received = guest.client.received();
        let of_guest = [received.questions(), received.updates(), received.changes()];
        totals = std::array::from_fn(|what| totals[what] + of_guest[what]);
        guest.client.leave().await;
        diaries.push(guest.diary);
    }
    let deeds = adversary.deeds();
    drop((fleet, adversary));
    running.close().await;
    assert_eq!(cast.stage().tree().pids(), [] as [i32; 0], "processes are left");
    let ledgers = cast.lines();
    drop(cast);
    assert_eq!(procfs::zombie_children(), [] as [i32; 0], "zombies are left");
    before.is_held_again().await;

    Evidence {
        diaries,
        ledgers,
        deeds,
        received: totals,
        machine_late,
    }
    .judge();
}

/// What is held when a first gateway has come and gone, and has left what every later one finds there: the guardian, the
/// signal handler.
async fn after_a_first_gateway(stage: &Stage) -> Held {
    let remote = FaultyHttpServer::start(Script::new(), HttpScript::new())
        .await
        .unwrap();
    let running = RunningGateway::open([
        stage.server("first", FaultyServer::new()).build().unwrap(),
        ServerConfig::http("web", remote.url("/mcp")).build().unwrap(),
    ])
    .await;
    running.close().await;
    drop(remote);
    Held::settled().await
}
