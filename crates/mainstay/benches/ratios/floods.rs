//! A neighbour's calls while another server writes faster than it is read, over the same calls before.
//!
//! Both servers belong to one fleet on one thread. The flood and the neighbour are processes of their own. What is timed is
//! each call to the neighbour by itself: its median, and the hundredth part that takes longest.

use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mainstay::{Fleet, Server, ServerConfig};
use memchr::memmem;
use serde_json::json;
use tokio::time::sleep;

use crate::answers::Answers;
use crate::compare::nanoseconds;
use crate::report::{RatioAmount, RatioRow, Side};
use crate::server::{BenchServer, TOOL};
use crate::web::server::{content_length, respond};
use crate::{Effort, Fallible, runtime};

/// Starts this program as a server that floods its client from the first call on: `FLOOD kind`.
pub(crate) const FLOOD: &str = "serve-flood";

/// How long a flood has been going on before the neighbour is looked at.
const UNDER_WAY: Duration = Duration::from_millis(500);

const MESSAGE: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"flood"}}"#;

const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n";

/// What is written without end.
#[derive(Clone, Copy)]
struct FloodKind {
    /// How it is called on the command line.
    word: &'static str,
    median: &'static str,
    longest: &'static str,
}

const KINDS: [FloodKind; 5] = [
    FloodKind {
        word: "stdout",
        median: "neighbour of a flood of messages on stdio, p50",
        longest: "the same, p99",
    },
    FloodKind {
        word: "stderr",
        median: "neighbour of a flood on stderr, p50",
        longest: "the same, p99",
    },
    FloodKind {
        word: "stream",
        median: "neighbour of a flood on a server's own stream over HTTP, p50",
        longest: "the same, p99",
    },
    FloodKind {
        word: "answer",
        median: "neighbour of a flood in an answer over HTTP, p50",
        longest: "the same, p99",
    },
    FloodKind {
        word: "interim",
        median: "neighbour of a flood of interim answers (1xx), p50",
        longest: "the same, p99",
    },
];

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<RatioRow>> {
    let mut rows = Vec::new();
    for kind in KINDS {
        rows.extend(runtime()?.block_on(beside(kind, effort.rounds(2000)))?);
    }
    Ok(rows)
}

/// The neighbour of one flood.
async fn beside(kind: FloodKind, calls: usize) -> Fallible<Vec<RatioRow>> {
    let (flood, _process) = flood(kind)?;
    let neighbour = BenchServer::default().server_process("neighbour")?;
    let fleet = Fleet::builder().start([neighbour.build()?, flood]);
    let neighbour = fleet.server("neighbour").ok_or("it was just started")?;
    let flooding = fleet.server("flood").ok_or("it was just started")?;
    for server in [&neighbour, &flooding] {
        server.wait_connected(Duration::from_secs(10)).await?;
    }
    let before = timed(&neighbour, calls).await?;
    // A flood of interim answers ends with its call, so there is always another.
    let calling = tokio::spawn(async move {
        loop {
            let _ = flooding.call(TOOL, &json!({})).await;
        }
    });
    sleep(UNDER_WAY).await;
    let during = timed(&neighbour, calls).await?;
    calling.abort();
    fleet.close(Duration::from_secs(5)).await;
    let row = |name, share: f64| {
        let (before, during) = (at(&before, share), at(&during, share));
        let side = |what, amount| Side {
            what,
            amount: RatioAmount::Nanoseconds(amount),
        };
        RatioRow {
            name,
            base: side("before", before),
            ours: side("during", during),
            ratio: during / before,
            aim: None,
        }
    };
    Ok(vec![row(kind.median, 0.5), row(kind.longest, 0.99)])
}

/// What each of so many calls takes, the shortest first.
async fn timed(server: &Server, calls: usize) -> Fallible<Vec<f64>> {
    let mut took = Vec::with_capacity(calls);
    for _ in 0..calls {
        let began = Instant::now();
        server.call(TOOL, &json!({})).await?;
        took.push(nanoseconds(began.elapsed()));
    }
    took.sort_by(f64::total_cmp);
    Ok(took)
}

/// The time that this share of the calls does not exceed.
fn at(took: &[f64], share: f64) -> f64 {
    took[((took.len() - 1) as f64 * share) as usize]
}

/// A process over HTTP, which ends with this.
struct FloodedProcess(Child);

impl Drop for FloodedProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that floods, and its process where Mainstay does not start it.
fn flood(kind: FloodKind) -> Fallible<(ServerConfig, Option<FloodedProcess>)> {
    let program = std::env::current_exe()?;
    if matches!(kind.word, "stdout" | "stderr") {
        let server = ServerConfig::stdio("flood", program.display().to_string());
        return Ok((
            server.args([FLOOD.to_owned(), kind.word.to_owned()]).build()?,
            None,
        ));
    }
    let mut child = Command::new(program)
        .args([FLOOD, kind.word])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut port = String::new();
    std::io::BufReader::new(child.stdout.take().ok_or("stdout is piped")?).read_line(&mut port)?;
    let url = format!("http://127.0.0.1:{}/mcp", port.trim());
    Ok((
        ServerConfig::http("flood", url).build()?,
        Some(FloodedProcess(child)),
    ))
}

/// Is the server that floods.
pub(crate) fn serve(kind: &str) -> Fallible {
    match kind {
        "stdout" => on_pipes(&mut std::io::stdout().lock(), format!("{MESSAGE}\n").as_bytes()),
        "stderr" => on_pipes(&mut std::io::stderr().lock(), b"x\n"),
        _http => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            println!("{}", listener.local_addr()?.port());
            for stream in listener.incoming() {
                let (stream, kind) = (stream?, kind.to_owned());
                // A client that goes away ends its thread alone.
                thread::spawn(move || answer_all(stream, &kind).is_ok());
            }
            Ok(())
        }
    }
}

/// Answers on stdout until the first call; then floods.
fn on_pipes(flooded: &mut impl Write, with: &[u8]) -> Fallible {
    let mut answers = Answers::new(BenchServer::default());
    let mut out = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.contains("\"tools/call\"") {
            return without_end(flooded, with);
        }
        answers.answer(line.as_bytes(), &mut out);
        // Written past the lock that the flood may hold.
        rustix::io::write(rustix::stdio::stdout(), &out)?;
        out.clear();
    }
    Ok(())
}

fn without_end(into: &mut impl Write, what: &[u8]) -> Fallible {
    let many = what.repeat(64 * 1024 / what.len());
    loop {
        into.write_all(&many)?;
    }
}

/// Answers one connection until it floods it.
fn answer_all(mut stream: TcpStream, kind: &str) -> Fallible {
    stream.set_nodelay(true)?;
    let mut answers = Answers::new(BenchServer::default());
    let (mut request, mut body, mut out) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&piece[..read]);
        let Some(head) = memmem::find(&request, b"\r\n\r\n").map(|end| end + 4) else {
            continue;
        };
        if request.len() < head + content_length(&request[..head]) {
            continue;
        }
        let is_get = request.starts_with(b"GET");
        let is_call = memmem::find(&request, b"\"tools/call\"").is_some();
        if (is_get && kind == "stream") || (is_call && kind == "answer") {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")?;
            return without_end(&mut stream, format!("data: {MESSAGE}\n\n").as_bytes());
        }
        if is_call && kind == "interim" {
            return without_end(&mut stream, INTERIM);
        }
        body.clear();
        out.clear();
        answers.answer(&request[head..], &mut body);
        let status = match (is_get, body.is_empty()) {
            (true, _) => "405 Method Not Allowed",
            (false, true) => "202 Accepted",
            (false, false) => "200 OK",
        };
        let opens = memmem::find(&request, b"\"initialize\"").is_some();
        respond(&mut out, status, opens, &body);
        stream.write_all(&out)?;
        request.clear();
    }
}
