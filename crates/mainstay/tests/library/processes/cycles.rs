//! A server that crashes again and again costs nothing that is not given back.

use std::time::{Duration, Instant};

use mainstay::{Fleet, Server, StateKind};
use mainstay_testkit::{FaultyServer, poll, procfs};
use serde_json::json;
use tokio::runtime::Handle;

use mainstay_testkit::fleet::{LONG, Stage, is_alone};

/// How many crashes in all; `MAINSTAY_CYCLES` asks for another number.
const CYCLES: usize = 1000;

/// Servers that crash at the same time.
const SERVERS: usize = 8;

/// Each server's first crashes, after which everything is allocated that stays.
const WARM_UP: usize = 5;

/// What the allocator may keep in pieces: three kilobytes a crash.
const MEMORY_GROWTH: u64 = 3_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_crashes_leave_no_zombie_descriptor_task_or_memory_behind() {
    if !is_alone("processes::cycles::a_thousand_crashes_leave_no_zombie_descriptor_task_or_memory_behind") {
        return;
    }
    let cycles = std::env::var("MAINSTAY_CYCLES").map_or(CYCLES, |cycles| cycles.parse().unwrap());
    let stage = Stage::new();
    let names: Vec<_> = (0..SERVERS).map(|n| format!("crashes-{n}")).collect();
    let servers = names
        .iter()
        .map(|name| stage.server(name, FaultyServer::new()).build().unwrap());
    let fleet = Fleet::builder().start(servers);
    crash_all(&fleet, WARM_UP).await;
    let before = Held::rested().await;
    let began = Instant::now();
    crash_all(&fleet, cycles.div_ceil(SERVERS)).await;
    let took = began.elapsed();
    let after = Held::settled(&before).await;
    println!("{cycles} crashes in {took:?}: {before:?} before, {after:?} after");

    assert_eq!(procfs::zombie_children(), [] as [i32; 0]);
    assert!(
        after.descriptors <= before.descriptors,
        "{before:?}, then {after:?}"
    );
    assert!(after.tasks <= before.tasks, "{before:?}, then {after:?}");
    assert!(
        after.memory < before.memory + MEMORY_GROWTH,
        "{before:?}, then {after:?}"
    );
    fleet.close(LONG).await;
    assert_eq!(stage.tree().pids(), [] as [i32; 0]);
}

/// Crashes each server so many times, all of them beside each other.
async fn crash_all(fleet: &Fleet, times: usize) {
    let crashing: Vec<_> = fleet
        .servers()
        .into_iter()
        .map(|server| tokio::spawn(crash(server, times)))
        .collect();
    for task in crashing {
        task.await.unwrap();
    }
}

async fn crash(server: Server, times: usize) {
    let mut generation = server.wait_connected(LONG).await.unwrap().generation;
    for cycle in 0..times {
        let kill = cycle % 2 == 0;
        let crashed = server.call("crash", &json!({ "kill": kill })).await;
        assert!(crashed.is_err());
        let again = server
            .wait_until(LONG, |now| {
                now.state == StateKind::Connected && now.generation > generation
            })
            .await
            .unwrap_or_else(|| panic!("{:?}", server.status()));
        generation = again.generation;
    }
}

/// What this process holds.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    tasks: usize,
    memory: u64,
}

impl Held {
    fn now() -> Self {
        Self {
            descriptors: procfs::open_descriptors(),
            tasks: Handle::current().metrics().num_alive_tasks(),
            memory: procfs::resident_bytes(),
        }
    }

    /// The least that is held within a moment: what the last crash left to do is done without an event.
    async fn rested() -> Self {
        const MOMENT: Duration = Duration::from_millis(500);
        let mut least = Self::now();
        poll::comes_true_async(MOMENT, || {
            let now = Self::now();
            least.descriptors = least.descriptors.min(now.descriptors);
            least.tasks = least.tasks.min(now.tasks);
            least.memory = now.memory;
            false
        })
        .await;
        least
    }

    /// What is held when no more is than `before`, or at last.
    async fn settled(before: &Self) -> Self {
        let mut now = Self::now();
        poll::comes_true_async(LONG, || {
            now = Self::now();
            now.descriptors <= before.descriptors
                && now.tasks <= before.tasks
                && now.memory < before.memory + MEMORY_GROWTH
        })
        .await;
        now
    }
}
