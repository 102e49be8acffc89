//! A supervised call over the same bytes posted by a bare client, by one caller and by many at once.

use std::sync::Arc;
use std::time::Duration;

use mainstay::transport::{Http, HttpOptions};
use mainstay::unsupervised::Unsupervised;
use mainstay::{CallOptions, Fleet, Server};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::bare::{Posts, Recorded, Socket};
use super::server::HttpBenchServer;
use crate::compare::RatioPair;
use crate::pinned::Pinned;
use crate::report::RatioRow;
use crate::server::{BenchEra, TOOL};
use crate::{Effort, Fallible, runtime};

const BATCH: u32 = 25;
const CALLERS: u32 = 32;
/// What each of many callers does in a batch.
const EACH: u32 = 8;

const AIM_OF_ONE: Option<f64> = Some(1.15);
const AIM_OF_MANY: Option<f64> = Some(1.1);

/// The names of an era's rows.
struct Names {
    over_socket: &'static str,
    /// The peer alone speaks the old way only.
    over_peer: Option<&'static str>,
    over_reqwest: &'static str,
    many: &'static str,
}

const LEGACY: Names = Names {
    over_socket: "call, HTTP with a session, over a bare socket",
    over_peer: Some("call, HTTP with a session, over the peer alone"),
    over_reqwest: "call, HTTP with a session, over reqwest",
    many: "call, HTTP with a session, over reqwest, 32 callers",
};

const MODERN: Names = Names {
    over_socket: "call, HTTP modern, over a bare socket",
    over_peer: None,
    over_reqwest: "call, HTTP modern, over reqwest",
    many: "call, HTTP modern, over reqwest, 32 callers",
};

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<RatioRow>> {
    let _pinned = Pinned::to_one()?;
    runtime()?.block_on(async {
        let mut rows = of_era(BenchEra::Legacy, &LEGACY, effort).await?;
        rows.extend(of_era(BenchEra::Modern, &MODERN, effort).await?);
        Ok(rows)
    })
}

async fn of_era(era: BenchEra, names: &Names, effort: Effort) -> Fallible<Vec<RatioRow>> {
    let remote = HttpBenchServer::start(era).await?;
    let fleet = Fleet::builder().start([remote.server("remote")?.build()?]);
    let server = fleet.server("remote").ok_or("it was just started")?;
    server.wait_connected(Duration::from_secs(10)).await?;
    let supervised = Arc::new(SupervisedHttp {
        server,
        arguments: json!({ "message": "hello" }),
    });
    supervised.call().await;
    let recorded = Recorded::last_of(&remote).await?;
    let posts = Arc::new(Posts::new(&remote, &recorded)?);
    let mut socket = Socket::connect(&remote).await?;

    let rounds = effort.rounds(800);
    let ours = async || supervised.call().await;
    let over_reqwest = RatioPair::measure(rounds, BATCH, async || posts.call().await, ours).await;
    let writes = async || socket.post(&recorded).await.expect("it is answered");
    let over_socket = RatioPair::measure(rounds, BATCH, writes, ours).await;
    let many = RatioPair::measure(
        effort.rounds(200),
        1,
        async || together(&posts).await,
        async || together(&supervised).await,
    );
    let many = many.await.each_of(CALLERS * EACH);
    let mut rows = vec![
        over_reqwest.row(names.over_reqwest, "reqwest", "supervised", AIM_OF_ONE),
        many.row(names.many, "reqwest", "supervised", AIM_OF_MANY),
        over_socket.row(names.over_socket, "socket", "supervised", None),
    ];
    if let Some(name) = names.over_peer {
        let peer = Unsupervised::start(Box::new(Http::new(remote.url(), HttpOptions::new())?));
        peer.request("initialize", &json!({})).await?;
        let params = json!({ "name": TOOL, "arguments": supervised.arguments });
        let asks = async || {
            let asked = peer.request("tools/call", &params).await;
            asked.expect("it is answered");
        };
        let over_peer = RatioPair::measure(rounds, BATCH, asks, ours).await;
        rows.push(over_peer.row(name, "peer", "supervised", None));
    }
    fleet.close(Duration::from_secs(5)).await;
    Ok(rows)
}

/// Whoever can make the call.
trait BenchCaller: Send + Sync + 'static {
    fn call(&self) -> impl Future<Output = ()> + Send;
}

struct SupervisedHttp {
    server: Server,
    arguments: Value,
}

impl BenchCaller for SupervisedHttp {
    async fn call(&self) {
        let options = CallOptions::default();
        let called = self.server.call(TOOL, &self.arguments).options(options).await;
        called.expect("it is answered");
    }
}

impl BenchCaller for Posts {
    async fn call(&self) {
        self.post().await.expect("it is answered");
    }
}

/// As many callers at once, each with a few calls one after the other.
async fn together(caller: &Arc<impl BenchCaller>) {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let caller = caller.clone();
        callers.spawn(async move {
            for _ in 0..EACH {
                caller.call().await;
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.expect("no call fails");
    }
}
