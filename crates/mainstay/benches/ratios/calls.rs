//! A supervised call over two that are not: one by the library's own peer without its keeper, which shows what
//! supervision costs, and one by the least client there can be, which shows what everything costs. In memory, where the
//! rest of the way costs next to nothing, and over the pipes of a real process.

use std::time::Duration;

use mainstay::recorder::RecorderOptions;
use mainstay::unsupervised::Unsupervised;
use mainstay::{CallOptions, Fleet};
use serde::Serialize;
use serde_json::{Value, json};

use crate::bare::BarePeer;
use crate::compare::RatioPair;
use crate::pinned::Pinned;
use crate::report::RatioRow;
use crate::server::{BenchServer, TOOL};
use crate::{Effort, Fallible, runtime};

const BATCH: u32 = 25;
const AIM: Option<f64> = Some(1.05);

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<RatioRow>> {
    let _pinned = Pinned::to_one()?;
    runtime()?.block_on(async {
        let remote = BenchServer::default();
        let (in_memory, stdio) = (effort.rounds(4000), effort.rounds(1500));

        let supervised = SupervisedCaller::start(remote.server_in_memory("remote").build()?).await?;
        let peer = Unsupervised::start(remote.in_memory());
        let bare = BarePeer::start(remote.in_memory());
        let over_peer = supervised.over_peer(&peer, in_memory).await;
        let over_bare = supervised.over_bare(&bare, in_memory).await;
        let mut rows = vec![
            over_peer.row("call, in memory, over the peer alone", "peer", "supervised", AIM),
            over_bare.row(
                "call, in memory, over the least client",
                "bare",
                "supervised",
                None,
            ),
        ];

        let supervised = SupervisedCaller::start(remote.server_process("remote")?.build()?).await?;
        let (_peers, transport) = remote.process()?;
        let peer = Unsupervised::start(transport);
        let (_bares, transport) = remote.process()?;
        let bare = BarePeer::start(transport);
        let over_peer = supervised.over_peer(&peer, stdio).await;
        let over_bare = supervised.over_bare(&bare, stdio).await;
        rows.push(over_peer.row("call, stdio, over the peer alone", "peer", "supervised", AIM));
        rows.push(over_bare.row("call, stdio, over the least client", "bare", "supervised", None));
        Ok(rows)
    })
}

/// A call with the flight recorder over one without, in the same run.
pub(crate) fn measure_recorder(effort: Effort) -> Fallible<Vec<RatioRow>> {
    const RECORDER_AIM: Option<f64> = Some(1.03);
    let _pinned = Pinned::to_one()?;
    runtime()?.block_on(async {
        let remote = BenchServer::default();
        let (heads, payloads) = (RecorderOptions::heads(), RecorderOptions::payloads());
        let mut rows = Vec::new();
        for (name, options, is_process, aim) in [
            ("call, in memory, recorder with heads", heads, false, RECORDER_AIM),
            ("call, stdio, recorder with heads", heads, true, RECORDER_AIM),
            ("call, in memory, recorder with payloads", payloads, false, None),
            ("call, stdio, recorder with payloads", payloads, true, None),
        ] {
            let config = |name: &str| -> Fallible<mainstay::ServerConfig> {
                Ok(match is_process {
                    true => remote.server_process(name)?.build()?,
                    false => remote.server_in_memory(name).build()?,
                })
            };
            let off = SupervisedCaller::with(config("off")?, RecorderOptions::off()).await?;
            let on = SupervisedCaller::with(config("on")?, options).await?;
            let rounds = effort.rounds(if is_process { 1500 } else { 4000 });
            let pair = RatioPair::measure(rounds, BATCH, async || off.call().await, async || on.call().await);
            rows.push(pair.await.row(name, "off", "on", aim));
        }
        Ok(rows)
    })
}

/// The whole walk of a call: fleet, server, lease, connection, peer, transport.
struct SupervisedCaller {
    fleet: Fleet,
    tool: String,
    arguments: Value,
}

impl SupervisedCaller {
    async fn start(server: mainstay::ServerConfig) -> Fallible<Self> {
        Self::with(server, RecorderOptions::default()).await
    }

    async fn with(server: mainstay::ServerConfig, recorder: RecorderOptions) -> Fallible<Self> {
        let tool = format!("{}__{TOOL}", server.name());
        let fleet = Fleet::builder().recorder(recorder).start([server]);
        for server in fleet.servers() {
            server.wait_connected(Duration::from_secs(10)).await?;
        }
        let arguments = json!({ "message": "hello" });
        Ok(Self {
            fleet,
            tool,
            arguments,
        })
    }

    async fn call(&self) {
        let options = CallOptions::default();
        let called = self
            .fleet
            .call(&self.tool, &self.arguments)
            .options(options)
            .await;
        called.expect("it is answered");
    }

    async fn over_peer(&self, peer: &Unsupervised, rounds: usize) -> RatioPair {
        let params = EchoParams {
            name: TOOL,
            arguments: &self.arguments,
        };
        let peers = async || {
            let asked = peer.request("tools/call", &params).await;
            asked.expect("it is answered");
        };
        RatioPair::measure(rounds, BATCH, peers, async || self.call().await).await
    }

    async fn over_bare(&self, bare: &BarePeer, rounds: usize) -> RatioPair {
        let bares = async || {
            bare.call(TOOL, &self.arguments).await.expect("it is answered");
        };
        RatioPair::measure(rounds, BATCH, bares, async || self.call().await).await
    }
}

#[derive(Serialize)]
struct EchoParams<'a> {
    name: &'a str,
    arguments: &'a Value,
}
