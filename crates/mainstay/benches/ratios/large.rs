//! A call with a large result from a process, over reading as many bytes from a process through a bare pipe.

use std::process::Stdio;
use std::time::Duration;

use mainstay::Fleet;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::compare::RatioPair;
use crate::report::{RatioAmount, RatioRow, Side};
use crate::server::{BenchServer, PIPE, TOOL};
use crate::{Effort, Fallible, memory, runtime};

const MEGABYTE: usize = 1_000_000;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<RatioRow>> {
    runtime()?.block_on(async {
        let one = side_by_side(MEGABYTE, effort.rounds(300)).await?;
        let before = memory::resident()?;
        let ten = side_by_side(10 * MEGABYTE, effort.rounds(40)).await?;
        let after = memory::resident()?;
        Ok(vec![
            one.row("large result, 1 MB", "bare pipe", "supervised", None),
            ten.row("large result, 10 MB", "bare pipe", "supervised", None),
            RatioRow {
                name: "large result, memory kept after 10 MB ones",
                base: Side {
                    what: "before",
                    amount: RatioAmount::Bytes(before),
                },
                ours: Side {
                    what: "after",
                    amount: RatioAmount::Bytes(after),
                },
                ratio: after / before,
                aim: None,
            },
        ])
    })
}

async fn side_by_side(length: usize, rounds: usize) -> Fallible<RatioPair> {
    let remote = BenchServer {
        result: length,
        ..BenchServer::default()
    };
    let fleet = Fleet::builder().start([remote.server_process("remote")?.build()?]);
    let server = fleet.server("remote").ok_or("it was just started")?;
    server.wait_connected(Duration::from_secs(10)).await?;
    let mut pipe = Pipe::start(length)?;
    let arguments = json!({});
    let pair = RatioPair::measure(
        rounds,
        1,
        async || pipe.read().await.expect("it writes"),
        async || {
            let reply = server.call(TOOL, &arguments).await;
            let result = reply.expect("it is answered").result;
            assert!(result.as_bytes().len() > length);
        },
    )
    .await;
    fleet.close(Duration::from_secs(5)).await;
    Ok(pair)
}

/// A process that writes as many bytes for each line it reads, and the plainest way to read them.
struct Pipe {
    stdin: ChildStdin,
    stdout: ChildStdout,
    buffer: Vec<u8>,
    length: usize,
    _child: Child,
}

impl Pipe {
    fn start(length: usize) -> Fallible<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([PIPE, &length.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            stdin: child.stdin.take().ok_or("stdin is piped")?,
            stdout: child.stdout.take().ok_or("stdout is piped")?,
            buffer: vec![0; 64 * 1024],
            length,
            _child: child,
        })
    }

    async fn read(&mut self) -> Fallible {
        self.stdin.write_all(b"\n").await?;
        let mut left = self.length;
        while left > 0 {
            left -= match self.stdout.read(&mut self.buffer).await? {
                0 => return Err("the pipe ended early".into()),
                read => read,
            };
        }
        Ok(())
    }
}
