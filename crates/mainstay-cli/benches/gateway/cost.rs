//! What a call costs the gateway itself: processor time, system calls and wake-ups of its process, which a busy machine
//! moves much less than the time that the call takes.
//!
//! System calls are counted by `strace`, in calls of their own, and left out where it is not there.

use std::io::{BufRead as _, BufReader};
use std::process::{ChildStderr, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::calls::{CallTarget, Crowd};
use crate::client::BenchClient;
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::{Amount, Figure};
use crate::program::{GatewayProcess, Web, until};
use crate::{Effort, Fallible, runtime};

const RESULT: usize = 100;

/// Callers at the same time, and what is aimed at for each kind of server: microseconds of processor time.
const CROWDS: [(usize, Aim); 2] = [
    (
        1,
        Aim {
            stdio: 85e3,
            http: 130e3,
        },
    ),
    (
        32,
        Aim {
            stdio: 85e3,
            http: 100e3,
        },
    ),
];

struct Aim {
    stdio: f64,
    http: f64,
}

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let mut figures = Vec::new();
        for (kind, what) in [(EchoKind::Rmcp, ""), (EchoKind::Bare, "bare ")] {
            figures.extend(of_servers(effort, kind, what).await?);
        }
        Ok(figures)
    })
}

async fn of_servers(effort: Effort, kind: EchoKind, what: &str) -> Fallible<Vec<Figure>> {
    let (home, web) = (TempDir::new()?, Web::start(kind, RESULT)?);
    let pipe = Echo::new(kind, EchoTransport::Stdio, RESULT);
    let gateway = GatewayProcess::start(&home, &json!({ "pipe": pipe.entry()?, "web": web.entry() }))?;
    let mut figures = Vec::new();
    for (path, way) in [("/mcp/pipe", "stdio"), ("/mcp/web", "HTTP")] {
        let mut client = BenchClient::connect(gateway.port, path).await?;
        until(async || Ok(client.call("echo").await.ok())).await?;
        let target = CallTarget {
            port: gateway.port,
            path,
            tool: "echo",
        };
        for (callers, aim) in CROWDS {
            let mut crowd = Crowd::gather(&target, callers).await?;
            let name = format!("{what}{way} server, {callers} at once");
            let aim = if way == "stdio" { aim.stdio } else { aim.http };
            figures.extend(of_crowd(effort, &gateway, &mut crowd, &name, aim).await?);
        }
    }
    Ok(figures)
}

async fn of_crowd(
    effort: Effort,
    gateway: &GatewayProcess,
    crowd: &mut Crowd,
    name: &str,
    aim: f64,
) -> Fallible<Vec<Figure>> {
    let calls = if effort.full { 6400 } else { 64 };
    crowd.call_in_all(calls / 4).await;
    let (time, sleeps) = (gateway.processor_time()?, gateway.wake_ups()?);
    crowd.call_in_all(calls).await;
    let each = |before: f64, after: f64| (after - before) / f64::from(calls);
    let mut figures = vec![
        Figure::amount(
            format!("processor time of a call, {name}"),
            Amount::Nanoseconds(each(time, gateway.processor_time()?)),
            Some(aim),
        ),
        Figure::amount(
            format!("wake-ups for a call, {name}"),
            Amount::Times(each(sleeps, gateway.wake_ups()?)),
            None,
        ),
    ];
    if let Some(counted) = SystemCalls::begin(gateway)? {
        let calls = calls / 8;
        crowd.call_in_all(calls).await;
        let (all, which) = counted.end(f64::from(calls))?;
        figures.push(Figure::amount(
            format!("system calls of a call, {name} ({which})"),
            Amount::Times(all),
            None,
        ));
    }
    Ok(figures)
}

/// A count of system calls that runs.
struct SystemCalls {
    strace: std::process::Child,
    /// `strace` reports each new thread there, and ends if the pipe is closed.
    _reports: BufReader<ChildStderr>,
    summary: tempfile::NamedTempFile,
}

impl SystemCalls {
    /// `None` where there is no `strace`, or it may not attach itself.
    fn begin(gateway: &GatewayProcess) -> Fallible<Option<Self>> {
        let summary = tempfile::NamedTempFile::new()?;
        let strace = Command::new("strace")
            .args(["-f", "-c", "-p", &gateway.id().to_string(), "-o"])
            .arg(summary.path())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut strace) = strace else {
            return Ok(None);
        };
        let mut said = String::new();
        let mut reports = BufReader::new(strace.stderr.take().ok_or("stderr is piped")?);
        reports.read_line(&mut said)?;
        if !said.contains("attached") {
            strace.wait()?;
            return Ok(None);
        }
        Ok(Some(Self {
            strace,
            _reports: reports,
            summary,
        }))
    }

    /// How many there were for each of so many calls, and which.
    fn end(mut self, calls: f64) -> Fallible<(f64, String)> {
        let id = self.strace.id().to_string();
        Command::new("kill").args(["-INT", &id]).status()?;
        self.strace.wait()?;
        let summary = std::fs::read_to_string(self.summary.path())?;
        // `% time, seconds, usecs/call, calls, [errors], syscall`
        let rows = summary.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (count, name) = (words.get(3)?.parse::<f64>().ok()?, *words.last()?);
            Some((count / calls, name))
        });
        let mut rows: Vec<(f64, &str)> = rows.filter(|(count, _)| *count >= 0.01).collect();
        rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let all = rows.iter().find(|(_, name)| *name == "total").ok_or("a total")?.0;
        let which = rows.iter().filter(|(_, name)| *name != "total");
        let which: Vec<_> = which.map(|(count, name)| format!("{name} {count:.2}")).collect();
        Ok((all, which.join(", ")))
    }
}
