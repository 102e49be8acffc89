//! What metrics cost a call: a gateway with `--metrics` beside one without, in front of the same kind of server. And what a scrape of many
//! servers costs.

use std::time::Instant;

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::calls::{CallTarget, Crowd};
use crate::client::BenchClient;
use crate::compare::RatioPair;
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::{Amount, Figure};
use crate::program::{GatewayProcess, until};
use crate::{Effort, Fallible, runtime};

const CALLERS: usize = 32;
const RESULT: usize = 100;
const AIM: f64 = 1.03;
/// The servers of the scraped gateway.
const SERVERS: usize = 200;
const SCRAPE_AIM: f64 = 20e6;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let homes = [TempDir::new()?, TempDir::new()?];
        let entry = Echo::new(EchoKind::Bare, EchoTransport::Stdio, RESULT).entry()?;
        let servers = json!({ "pipe": entry });
        let without = GatewayProcess::start(&homes[0], &servers)?;
        let with = GatewayProcess::start_with(&homes[1], &servers, &["--metrics"])?;
        let target = |gateway: &GatewayProcess| CallTarget {
            port: gateway.port,
            path: "/mcp/pipe",
            tool: "echo",
        };
        let (without, with) = (target(&without), target(&with));
        let mut base = BenchClient::connect(without.port, without.path).await?;
        let mut measured = BenchClient::connect(with.port, with.path).await?;
        until(async || Ok(base.call("echo").await.ok())).await?;
        until(async || Ok(measured.call("echo").await.ok())).await?;
        let one = RatioPair::measure(
            effort.rounds(400),
            50,
            async || base.call("echo").await.expect("answered"),
            async || measured.call("echo").await.expect("answered"),
        )
        .await;
        let mut base = Crowd::gather(&without, CALLERS).await?;
        let mut measured = Crowd::gather(&with, CALLERS).await?;
        let calls = if effort.full { 640 } else { 64 };
        let many = RatioPair::measure(
            effort.rounds(100),
            1,
            async || base.call_in_all(calls).await,
            async || measured.call_in_all(calls).await,
        )
        .await
        .each_of(calls);
        Ok(vec![
            Figure::ratio("call with metrics over without, one caller", &one, Some(AIM)),
            Figure::ratio(
                format!("call with metrics over without, {CALLERS} callers"),
                &many,
                Some(AIM),
            ),
        ])
    })
}

/// A scrape of a gateway with many servers, each a process whose memory and processor time are read.
pub(crate) fn measure_scrape(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let home = TempDir::new()?;
        let mut servers = Map::new();
        for number in 0..SERVERS {
            let entry = Echo::new(EchoKind::Bare, EchoTransport::Stdio, RESULT).entry()?;
            servers.insert(format!("s{number}"), entry);
        }
        let gateway = GatewayProcess::start_with(&home, &Value::Object(servers), &["--metrics"])?;
        until(async || Ok((up(&scrape(gateway.port).await?) == SERVERS).then_some(()))).await?;
        let rounds = effort.rounds(200);
        let mut times = Vec::with_capacity(rounds);
        let before = gateway.processor_time()?;
        for _ in 0..rounds {
            let began = Instant::now();
            let text = scrape(gateway.port).await?;
            times.push(began.elapsed().as_secs_f64() * 1e9);
            assert_eq!(up(&text), SERVERS, "every server is in every scrape");
        }
        let used = (gateway.processor_time()? - before) / f64::from(u32::try_from(rounds)?);
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        Ok(vec![
            Figure::amount(
                format!("a scrape of {SERVERS} servers"),
                Amount::Nanoseconds(median),
                Some(SCRAPE_AIM),
            ),
            Figure::amount(
                format!("processor time of a scrape of {SERVERS} servers"),
                Amount::Nanoseconds(used),
                Some(SCRAPE_AIM),
            ),
        ])
    })
}

/// The metrics, as Prometheus asks for them.
async fn scrape(port: u16) -> Fallible<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// How many servers are up.
fn up(metrics: &str) -> usize {
    let lines = metrics.lines();
    lines
        .filter(|line| line.starts_with("mainstay_server_up{") && line.ends_with(" 1"))
        .count()
}
