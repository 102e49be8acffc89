//! The gateway while a server floods clients that do not read: what a neighbour's calls take, and how soon SIGTERM ends it.

use std::io::{BufRead, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::client::BenchClient;
use crate::compare::{RatioPair, nanoseconds};
use crate::echo::{Bare, Echo, EchoKind, EchoTransport};
use crate::figure::{Amount, Figure};
use crate::program::{GatewayProcess, this_program, until};
use crate::{Effort, Fallible, runtime};

/// The word that makes this program a server that floods its clients from its first call on.
pub(crate) const WORD: &str = "be-a-flood";

/// Clients that open a stream and never read.
const STREAMS: usize = 200;

/// How long the flood goes on before anything is measured.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// How much longer the slowest hundredth of a neighbour's calls may take, in nanoseconds.
const DELAY_AIM: f64 = 20e6;

/// How soon SIGTERM ends the program: a second for answers that clients have yet to read, 0.8 s for the servers.
const END_AIM: f64 = 2e9;

const MESSAGE: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"flood"}}"#;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let home = TempDir::new()?;
        let servers = json!({
            "flood": { "command": this_program()?, "args": [WORD] },
            "neighbour": Echo::new(EchoKind::Bare, EchoTransport::Stdio, 10).entry()?,
        });
        let gateway = GatewayProcess::start(&home, &servers)?;
        let mut neighbour = BenchClient::connect(gateway.port, "/mcp/neighbour").await?;
        let mut flooded = BenchClient::connect(gateway.port, "/mcp/flood").await?;
        for client in [&mut neighbour, &mut flooded] {
            until(async || Ok(client.tools().await?.contains("echo").then_some(()))).await?;
        }
        let mut unread = Vec::new();
        for _ in 0..STREAMS {
            let client = BenchClient::connect(gateway.port, "/mcp/flood").await?;
            unread.push(client.open_unread_stream(gateway.port).await?);
        }
        let calls = effort.rounds(2000);
        let before = timed(&mut neighbour, calls).await?;
        flooded.call("echo").await?;
        tokio::time::sleep(UNDER_WAY).await;
        let during = timed(&mut neighbour, calls).await?;
        let mut figures = Vec::new();
        for (name, share, aim) in [("p50", 0.5, None), ("p99", 0.99, Some(DELAY_AIM))] {
            let mut pair = RatioPair::new();
            pair.push(at(&before, share), at(&during, share));
            let name = format!(
                "neighbour of a flood to {STREAMS} unread streams, {name} (direct: before the flood)"
            );
            figures.push(Figure::more(name, &pair, aim));
        }
        let began = Instant::now();
        gateway.terminate()?;
        let took = Amount::Nanoseconds(nanoseconds(began.elapsed()));
        let name = "SIGTERM during the same flood: time to the end of the program";
        figures.push(Figure::amount(name, took, Some(END_AIM)));
        Ok(figures)
    })
}

/// What each of so many calls takes, the shortest first.
async fn timed(client: &mut BenchClient, calls: usize) -> Fallible<Vec<f64>> {
    let mut took = Vec::with_capacity(calls);
    for _ in 0..calls {
        let began = Instant::now();
        client.call("echo").await?;
        took.push(nanoseconds(began.elapsed()));
    }
    took.sort_by(f64::total_cmp);
    Ok(took)
}

/// The time that this share of the calls does not exceed.
fn at(took: &[f64], share: f64) -> f64 {
    took[((took.len() - 1) as f64 * share) as usize]
}

/// Is a server that answers as any other, and writes notifications without end once it was called.
pub(crate) fn run() -> Fallible {
    let echo = Bare::new(10);
    let mut input = std::io::stdin().lock();
    let (mut line, mut out) = (Vec::new(), Vec::new());
    let mut floods = false;
    loop {
        line.clear();
        out.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if echo.answer(&line, &mut out) {
            out.push(b'\n');
            let mut output = std::io::stdout().lock();
            output.write_all(&out)?;
            output.flush()?;
        }
        if !floods && memchr::memmem::find(&line, b"\"tools/call\"").is_some() {
            floods = true;
            thread::spawn(|| {
                let piece = format!("{MESSAGE}\n").repeat(64);
                // Its client has gone when this fails.
                while std::io::stdout().lock().write_all(piece.as_bytes()).is_ok() {}
            });
        }
    }
}
