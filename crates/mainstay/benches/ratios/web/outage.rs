//! The death of a server over HTTP, seen by the call that waits for its answer; and its return, seen by the next call.

use std::net::TcpStream;
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mainstay::config::Replay;
use mainstay::{CallOptions, Fleet, Policy, Server};
use serde_json::json;
use tokio::time::sleep;

use super::bare::{Posts, Recorded};
use super::server::{HANG, HttpBenchServer};
use crate::compare::{RatioPair, nanoseconds};
use crate::report::RatioRow;
use crate::server::{BenchEra, TOOL};
use crate::{Effort, Fallible, runtime};

/// From SIGKILL to the failure of the call that was pending, over that of a POST that was.
pub(crate) fn death(effort: Effort) -> Fallible<Vec<RatioRow>> {
    runtime()?.block_on(async {
        let rounds = effort.rounds(40);
        let legacy = deaths(BenchEra::Legacy, rounds).await?;
        let modern = deaths(BenchEra::Modern, rounds).await?;
        let row = |pair: &RatioPair, name| pair.row(name, "reqwest", "pending call failed", None);
        Ok(vec![
            row(&legacy, "death, HTTP with a session"),
            row(&modern, "death, HTTP modern"),
        ])
    })
}

/// From the moment a server listens again to the next answered call, over the first success of a loop that does nothing
/// but try to connect.
pub(crate) fn come_back(effort: Effort) -> Fallible<Vec<RatioRow>> {
    const AT_ONCE: Duration = Duration::ZERO;
    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(1);
    runtime()?.block_on(async {
        let mut rows = Vec::new();
        for (name, era, outage, rounds) in [
            (
                "return at once, HTTP with a session",
                BenchEra::Legacy,
                AT_ONCE,
                40,
            ),
            ("return at once, HTTP modern", BenchEra::Modern, AT_ONCE, 40),
            (
                "return after 0.1 s, HTTP with a session",
                BenchEra::Legacy,
                SHORT,
                40,
            ),
            ("return after 0.1 s, HTTP modern", BenchEra::Modern, SHORT, 40),
            (
                "return after 1 s, HTTP with a session",
                BenchEra::Legacy,
                LONG,
                10,
            ),
            ("return after 1 s, HTTP modern", BenchEra::Modern, LONG, 10),
        ] {
            let pair = returns(era, outage, effort.rounds(rounds)).await?;
            rows.push(pair.row(name, "connected", "call answered", None));
        }
        Ok(rows)
    })
}

async fn deaths(era: BenchEra, rounds: usize) -> Fallible<RatioPair> {
    let mut theirs = HttpBenchServer::start(era).await?;
    let mut ours = HttpBenchServer::start(era).await?;
    let (fleet, server) = kept(&ours).await?;
    let hang = json!({ "message": HANG });
    // It is to fail, and not to be made again.
    let once = CallOptions::default().replay(Replay::Never);
    let mut pair = RatioPair::new();
    for _ in 0..rounds {
        let posts = Posts::new(&theirs, &Recorded::last_of(&ours).await?)?.instead_of("hello", HANG);
        let post = tokio::spawn(async move { posts.post().await.is_err() });
        let base = fails_when_killed(&mut theirs, post).await?;
        theirs = theirs.again().await?;

        let (caller, hang, once) = (server.clone(), hang.clone(), once.clone());
        let call = tokio::spawn(async move { caller.call(TOOL, &hang).options(once).await.is_err() });
        let took = fails_when_killed(&mut ours, call).await?;
        ours = ours.again().await?;
        answered(&server).await?;
        pair.push(nanoseconds(base), nanoseconds(took));
    }
    fleet.close(Duration::from_secs(5)).await;
    Ok(pair)
}

/// From the death of a server to the end of what waits for its answer, and says whether it failed.
async fn fails_when_killed(
    remote: &mut HttpBenchServer,
    waiting: tokio::task::JoinHandle<bool>,
) -> Fallible<Duration> {
    remote.hangs().await?;
    let killed = Instant::now();
    remote.kill()?;
    if !waiting.await? {
        return Err("it was answered by a dead server".into());
    }
    let took = killed.elapsed();
    remote.dead().await?;
    Ok(took)
}

async fn returns(era: BenchEra, outage: Duration, rounds: usize) -> Fallible<RatioPair> {
    let mut remote = HttpBenchServer::start(era).await?;
    let (fleet, server) = kept(&remote).await?;
    let mut pair = RatioPair::new();
    for _ in 0..rounds {
        remote.kill()?;
        remote.dead().await?;
        let caller = server.clone();
        let call = tokio::spawn(async move { answered(&caller).await.map_err(|error| error.to_string()) });
        sleep(outage).await;
        let connecting = thread::spawn({
            let port = remote.port;
            move || {
                while TcpStream::connect(("127.0.0.1", port)).is_err() {}
                SystemTime::now()
            }
        });
        remote = remote.again().await?;
        let answered = call.await??;
        let connected = connecting.join().map_err(|_| "it connects")?;
        let after = |moment: SystemTime| moment.duration_since(remote.since).map(nanoseconds);
        pair.push(after(connected)?, after(answered)?);
    }
    fleet.close(Duration::from_secs(5)).await;
    Ok(pair)
}

/// A server that Mainstay keeps, and that has answered once.
async fn kept(remote: &HttpBenchServer) -> Fallible<(Fleet, Server)> {
    let mut policy = Policy::default();
    // Every start but the first takes a token, and here nothing is done but to kill and start.
    policy.bucket.size = NonZeroU32::MAX;
    let fleet = Fleet::builder().start([remote.server("remote")?.policy(policy).build()?]);
    let server = fleet.server("remote").ok_or("it was just started")?;
    server.wait_connected(Duration::from_secs(10)).await?;
    answered(&server).await?;
    Ok((fleet, server))
}

/// Calls until a call is answered; says when it was.
async fn answered(server: &Server) -> Fallible<SystemTime> {
    const RETURN_TIMEOUT: Duration = Duration::from_secs(30);
    let began = Instant::now();
    let arguments = json!({ "message": "hello" });
    loop {
        match server.call(TOOL, &arguments).await {
            Ok(_) => return Ok(SystemTime::now()),
            Err(error) if began.elapsed() > RETURN_TIMEOUT => return Err(error.into()),
            // A caller that waits for the server has no pause of its own; one that lost it asks again.
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}
