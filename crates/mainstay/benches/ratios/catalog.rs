//! Reads the catalog of fifty servers with twenty tools each, without and with concurrent writers.

use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mainstay::{Fleet, Policy};

use crate::compare::{RatioPair, nanoseconds};
use crate::report::RatioRow;
use crate::server::{BenchServer, TOOL};
use crate::{Effort, Fallible, runtime};

const SERVERS: usize = 50;
const TOOLS: usize = 20;
const WRITERS: usize = 2;

/// A read takes tens of nanoseconds: this many make a batch that a clock can time.
const BATCH: u32 = 1000;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<RatioRow>> {
    let still = Kept::start(0)?;
    let written = Kept::start(WRITERS)?;
    let load = |fleet: &Fleet| {
        black_box(fleet.catalog());
    };
    let tool = format!("server-7__{TOOL}");
    let find = |fleet: &Fleet| {
        black_box(fleet.catalog().tool(&tool).is_some());
    };
    let rounds = effort.rounds(2000);
    let before = written.fleet.catalog().revision();
    let started = Instant::now();
    let rows = vec![
        pair(&still.fleet, &written.fleet, rounds, load).row(
            "catalog, load",
            "no writer",
            "two servers write",
            None,
        ),
        pair(&still.fleet, &written.fleet, rounds, find).row(
            "catalog, load and find a tool",
            "no writer",
            "two servers write",
            None,
        ),
    ];
    let revisions = written.fleet.catalog().revision() - before;
    eprintln!(
        "catalog: {revisions} revisions were published in {:?} of reading",
        started.elapsed()
    );
    Ok(rows)
}

fn pair(still: &Fleet, written: &Fleet, rounds: usize, read: impl Fn(&Fleet)) -> RatioPair {
    let timed = |fleet: &Fleet| {
        let started = Instant::now();
        for _ in 0..BATCH {
            read(fleet);
        }
        nanoseconds(started.elapsed()) / f64::from(BATCH)
    };
    let mut pair = RatioPair::new();
    for _ in 0..rounds {
        pair.push(timed(still), timed(written));
    }
    pair
}

/// A fleet with a thread of its own, so that reading and writing take place at the same time.
struct Kept {
    fleet: Fleet,
    /// Dropping it ends the thread.
    _end: mpsc::Sender<()>,
}

impl Kept {
    fn start(writers: usize) -> Fallible<Self> {
        let (started, fleet) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let runtime = runtime()?;
        thread::spawn(move || {
            runtime.block_on(async {
                let fleet = start(writers);
                let connected = all_connected(&fleet).await;
                let _ = started.send(connected.then(|| fleet.clone()));
                let waiting = tokio::task::spawn_blocking(move || ended.recv());
                let _ = waiting.await;
            });
        });
        let fleet = fleet.recv()?.ok_or("not all servers came up")?;
        Ok(Self { fleet, _end: end })
    }
}

/// A fleet in which `writers` servers change their tools as fast as they are listed.
fn start(writers: usize) -> Fleet {
    let servers = (0..SERVERS).map(|n| {
        let remote = BenchServer {
            tools: TOOLS,
            restless: n < writers,
            ..BenchServer::default()
        };
        let policy = Policy {
            relist_pause: Duration::from_millis(1),
            ..Policy::default()
        };
        let server = remote.server_in_memory(&format!("server-{n}")).policy(policy);
        server.build().expect("the name is valid")
    });
    Fleet::builder().start(servers)
}

async fn all_connected(fleet: &Fleet) -> bool {
    for server in fleet.servers() {
        if server.wait_connected(Duration::from_secs(30)).await.is_err() {
            return false;
        }
    }
    fleet.catalog().tools().len() == SERVERS * TOOLS
}
