//! How many instructions a call takes in the gateway's process, counted by `callgrind`: other work on the machine does not change
//! them.
//!
//! Left out where there is no `valgrind`, and where no figures are to be quoted: everything is some fifty times slower under it.
//! `MAINSTAY_BENCH_CALLGRIND=DIRECTORY` keeps the counts of each function there, for `callgrind_annotate`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::client::BenchClient;
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::{Amount, Figure};
use crate::program::{GatewayProcess, Web, until};
use crate::{Effort, Fallible, runtime};

const RESULT: usize = 100;

/// Calls that are counted; and as many more, so that what does not belong to calls cancels out.
const CALLS: u32 = 500;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    let valgrind = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !effort.full || valgrind.is_err() {
        return Ok(Vec::new());
    }
    runtime()?.block_on(async {
        let (home, web) = (TempDir::new()?, Web::start(EchoKind::Bare, RESULT)?);
        let pipe = Echo::new(EchoKind::Bare, EchoTransport::Stdio, RESULT);
        let kept = std::env::var_os("MAINSTAY_BENCH_CALLGRIND").map(PathBuf::from);
        let counts = kept.unwrap_or_else(|| home.path().to_owned()).join("callgrind");
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--log-file=/dev/null"])
            .arg(format!("--callgrind-out-file={}", counts.display()));
        let servers = json!({ "pipe": pipe.entry()?, "web": web.entry() });
        let gateway = GatewayProcess::start_under(valgrind, &home, &servers)?;
        let mut counter = InstructionCounter {
            process: gateway.id(),
            counts,
            dumps: 0,
        };
        let mut figures = Vec::new();
        for (path, tool, what) in [
            ("/mcp/pipe", "echo", "bare stdio server"),
            ("/mcp/web", "echo", "bare HTTP server"),
            ("/mcp", "pipe__echo", "bare stdio server among all"),
        ] {
            let mut client = BenchClient::connect(gateway.port, path).await?;
            until(async || Ok(client.call(tool).await.ok())).await?;
            let mut counted = Vec::new();
            for calls in [CALLS, CALLS, 2 * CALLS] {
                for _ in 0..calls {
                    client.call(tool).await?;
                }
                counted.push(counter.next()?);
            }
            // The first ones only warm up.
            let each = (counted[2] - counted[1]) / f64::from(CALLS);
            let name = format!("instructions of a call, {what}");
            figures.push(Figure::amount(name, Amount::Times(each), None));
        }
        Ok(figures)
    })
}

/// Reads the counts of a process that runs under `callgrind`.
struct InstructionCounter {
    process: u32,
    counts: PathBuf,
    dumps: u32,
}

impl InstructionCounter {
    /// The instructions since the last time.
    fn next(&mut self) -> Fallible<f64> {
        let process = self.process.to_string();
        let control = Command::new("callgrind_control")
            .args(["--dump", &process])
            .output()?;
        self.dumps += 1;
        let counts = PathBuf::from(format!("{}.{}", self.counts.display(), self.dumps));
        total(&counts)?.ok_or_else(|| String::from_utf8_lossy(&control.stdout).into())
    }
}

fn total(counts: &Path) -> Fallible<Option<f64>> {
    let counts = std::fs::read_to_string(counts)?;
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(total.map(|total| total.trim().parse()).transpose()?)
}
