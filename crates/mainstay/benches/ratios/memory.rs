//! The memory of a thousand connections in memory, supervised and bare, each read in a fresh process.

use std::time::Duration;

use mainstay::Fleet;
use serde_json::json;

use crate::bare::BarePeer;
use crate::report::{RatioAmount, RatioRow, Side};
use crate::server::{BenchServer, TOOL};
use crate::{Effort, Fallible, runtime};

/// Starts this program as a process that keeps servers and says what each takes: `FRESH side count`.
pub(crate) const FRESH: &str = "fresh";
const BARE: &str = "bare";
const SUPERVISED: &str = "supervised";

/// Servers that are there before the memory is first read: what the first one brings is not each one's.
const FIRST: usize = 10;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<RatioRow>> {
    let count = if effort.full { 1000 } else { 50 };
    let bare = in_fresh_process(BARE, count)?;
    let supervised = in_fresh_process(SUPERVISED, count)?;
    Ok(vec![RatioRow {
        name: "memory of a server, server included",
        ratio: supervised / bare,
        base: Side {
            what: BARE,
            amount: RatioAmount::Bytes(bare),
        },
        ours: Side {
            what: SUPERVISED,
            amount: RatioAmount::Bytes(supervised),
        },
        aim: None,
    }])
}

fn in_fresh_process(side: &str, count: usize) -> Fallible<f64> {
    let output = std::process::Command::new(std::env::current_exe()?)
        .args([FRESH, side, &count.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Is the fresh process.
pub(crate) fn fresh(side: &str, count: usize) -> Fallible {
    let each = runtime()?.block_on(async {
        match side {
            BARE => bare(count).await,
            SUPERVISED => supervised(count).await,
            _ => Err("which side?".into()),
        }
    })?;
    println!("{each}");
    Ok(())
}

async fn bare(count: usize) -> Fallible<f64> {
    let mut kept = Vec::with_capacity(FIRST + count);
    let mut before = 0.0;
    for n in 0..FIRST + count {
        if n == FIRST {
            before = resident()?;
        }
        let bare = BarePeer::start(remote().in_memory());
        bare.begin().await?;
        bare.call(TOOL, &json!({})).await?;
        kept.push(bare);
    }
    Ok((resident()? - before) / count as f64)
}

async fn supervised(count: usize) -> Fallible<f64> {
    let first = fleet("first", FIRST).await?;
    let before = resident()?;
    let second = fleet("second", count).await?;
    let each = (resident()? - before) / count as f64;
    drop((first, second));
    Ok(each)
}

async fn fleet(prefix: &str, count: usize) -> Fallible<Fleet> {
    let servers: Result<Vec<_>, _> = (0..count)
        .map(|n| remote().server_in_memory(&format!("{prefix}-{n}")).build())
        .collect();
    let fleet = Fleet::builder().start(servers?);
    for server in fleet.servers() {
        server.wait_connected(Duration::from_secs(60)).await?;
        server.call(TOOL, &json!({})).await?;
    }
    Ok(fleet)
}

/// Small buffers: those of the server are not what is measured.
fn remote() -> BenchServer {
    BenchServer {
        buffer: 4096,
        ..BenchServer::default()
    }
}

/// The memory of this process that is in use now, in bytes.
pub(crate) fn resident() -> Fallible<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(1024.0 * kilobytes.ok_or("the system does not say")?.parse::<f64>()?)
}
