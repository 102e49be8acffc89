//! From the death of a server to the next success of a client that has done nothing about it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::client::BenchClient;
use crate::compare::{RatioPair, nanoseconds};
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::Figure;
use crate::program::{BenchProcess, GatewayProcess, this_program, until};
use crate::{Effort, Fallible, runtime};

/// How much longer than the server's own start it may take, in nanoseconds.
const MORE: f64 = 10e6;

/// What a client says until it has its first answer.
const FIRST_WORDS: [&str; 4] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{}}}"#,
];

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    let mut figures = Vec::new();
    for (after_ms, name) in [
        (
            0,
            "SIGKILL to the next success in the same session, over the server's own start",
        ),
        (100, "the same, server that takes 0.1 s to start"),
    ] {
        let echo = Echo::new(EchoKind::Rmcp, EchoTransport::Stdio, 100).starting_in(after_ms);
        let pair = runtime()?.block_on(pair(effort, echo))?;
        figures.push(Figure::more(name, &pair, Some(MORE)));
    }
    Ok(figures)
}

async fn pair(effort: Effort, echo: Echo) -> Fallible<RatioPair> {
    let mut pair = RatioPair::new();
    for _ in 0..effort.rounds(8) {
        let home = TempDir::new()?;
        let gateway = GatewayProcess::start(&home, &json!({ "mortal": echo.entry()? }))?;
        let mut client = BenchClient::connect(gateway.port, "/mcp/mortal").await?;
        // Fewer than the starts that a server has to spare.
        for _ in 0..4 {
            let pid = until(async || Ok(client.number("pid").await.ok())).await?;
            let by_hand = start(echo)?;
            let began = Instant::now();
            let pid = Pid::from_raw(i32::try_from(pid)?).ok_or("a process")?;
            kill_process(pid, Signal::KILL)?;
            while client.number("pid").await.is_err() {}
            pair.push(by_hand, nanoseconds(began.elapsed()));
        }
    }
    Ok(pair)
}

/// How long the server takes from its start by hand to its first answered call.
fn start(echo: Echo) -> Fallible<f64> {
    let began = Instant::now();
    let child = Command::new(this_program()?)
        .args(echo.arguments())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut process = BenchProcess(child);
    let mut input = process.0.stdin.take().ok_or("stdin is piped")?;
    let mut output = BufReader::new(process.0.stdout.take().ok_or("stdout is piped")?);
    let mut line = String::new();
    for words in FIRST_WORDS {
        input.write_all(format!("{words}\n").as_bytes())?;
        if words.contains("\"id\"") {
            output.read_line(&mut line)?;
        }
    }
    Ok(nanoseconds(began.elapsed()))
}
