//! From SIGKILL to the next answered call, over the server's own start: process, handshake, list of tools.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use mainstay::{Fleet, Policy, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::bare::BarePeer;
use crate::compare::{RatioPair, nanoseconds};
use crate::report::RatioRow;
use crate::server::{BenchServer, TOOL};
use crate::{Effort, Fallible, runtime};

/// How long an interpreter takes before the first line of a server runs.
const INTERPRETER: Duration = Duration::from_millis(100);

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<RatioRow>> {
    runtime()?.block_on(async {
        let slow = side_by_side(INTERPRETER, effort.rounds(30)).await?;
        let quick = side_by_side(Duration::ZERO, effort.rounds(200)).await?;
        Ok(vec![
            slow.row(
                "recovery, a server that starts in 0.1 s",
                "start",
                "killed to answered",
                Some(1.1),
            ),
            quick.row(
                "recovery, a server that starts at once",
                "start",
                "killed to answered",
                None,
            ),
        ])
    })
}

async fn side_by_side(startup: Duration, rounds: usize) -> Fallible<RatioPair> {
    let remote = BenchServer {
        startup,
        ..BenchServer::default()
    };
    let mut policy = Policy::default();
    // Every start but the first takes a token, and here nothing is done but to kill and start.
    policy.bucket.size = NonZeroU32::MAX;
    let fleet = Fleet::builder().start([remote.server_process("remote")?.policy(policy).build()?]);
    let server = fleet.server("remote").ok_or("it was just started")?;
    server.wait_connected(Duration::from_secs(10)).await?;
    call(&server).await?;
    let mut pair = RatioPair::new();
    for _ in 0..rounds {
        let start = start_by_hand(remote).await?;
        pair.push(nanoseconds(start), nanoseconds(recover(&server).await?));
    }
    fleet.close(Duration::from_secs(5)).await;
    Ok(pair)
}

async fn start_by_hand(remote: BenchServer) -> Fallible<Duration> {
    let started = Instant::now();
    let (mut child, transport) = remote.process()?;
    let bare = BarePeer::start(transport);
    bare.begin().await?;
    let took = started.elapsed();
    bare.close();
    child.kill().await?;
    Ok(took)
}

async fn recover(server: &Server) -> Fallible<Duration> {
    let pid = server.status().pid.and_then(Pid::from_raw).ok_or("it runs")?;
    let killed = Instant::now();
    kill_process(pid, Signal::KILL)?;
    // However the call fails with its server, the next generation answers it: its tool only reads.
    call(server).await?;
    Ok(killed.elapsed())
}

async fn call(server: &Server) -> Fallible {
    server.call(TOOL, &json!({})).await?;
    Ok(())
}
