//! A supervised call over a bare one: in memory, where everything but the two clients costs next to nothing, and over
//! the pipes of a real process.

use std::time::Duration;

use mainstay::{CallOptions, Fleet};
use serde_json::json;

use crate::bare::Bare;
use crate::compare::Pair;
use crate::far::{Far, TOOL};
use crate::pinned::Pinned;
use crate::report::Row;
use crate::{Effort, Fallible, runtime};

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Row>> {
    let _pinned = Pinned::to_one()?;
    runtime()?.block_on(async {
        let far = Far::default();

        let bare = Bare::start(far.in_memory());
        let fleet = Fleet::builder().start([far.server_in_memory("far").build()?]);
        let in_memory = side_by_side(&bare, &fleet, effort.rounds(4000), 25).await?;

        let (_child, transport) = far.process()?;
        let bare = Bare::start(transport);
        let fleet = Fleet::builder().start([far.server_process("far")?.build()?]);
        let stdio = side_by_side(&bare, &fleet, effort.rounds(1500), 25).await?;

        Ok(vec![
            in_memory.row("call, in memory", "bare", "supervised", Some(1.05)),
            stdio.row("call, stdio", "bare", "supervised", Some(1.05)),
        ])
    })
}

async fn side_by_side(bare: &Bare, fleet: &Fleet, rounds: usize, batch: u32) -> Fallible<Pair> {
    let server = fleet.server("far").ok_or("it was just started")?;
    bare.begin().await?;
    server.wait_connected(Duration::from_secs(10)).await?;
    let arguments = json!({ "message": "hello" });
    let name = format!("far__{TOOL}");
    let pair = Pair::measure(
        rounds,
        batch,
        async || {
            bare.call(TOOL, &arguments).await.expect("it is answered");
        },
        async || {
            let called = fleet.call(&name, &arguments, CallOptions::default()).await;
            called.expect("it is answered");
        },
    )
    .await;
    bare.close();
    fleet.close(Duration::from_secs(5)).await;
    Ok(pair)
}
