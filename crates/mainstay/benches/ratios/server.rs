//! The server of the benchmarks: it does next to nothing, in memory or as a process of its own.
//!
//! It does as little as possible, so that what is timed is the near side. Unless it is said to be modern it is a server
//! of the older era, and of the questions it does not know the modern one is answered with "method not found".

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mainstay::ServerConfig;
use mainstay::config::{CustomTarget, ServerBuilder, StdioTarget};
use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::process::{Child, Command};

use crate::Fallible;
use crate::answers::Answers;

/// Starts this program as a server: `SERVE start-up-in-milliseconds result-in-bytes`.
pub(crate) const SERVE: &str = "serve";
/// Starts this program as a mere writer, `PIPE length`: that many bytes for each line it reads.
pub(crate) const PIPE: &str = "pipe";

/// The tool that every server has.
pub(crate) const TOOL: &str = "tool-0";

/// What a server is like.
#[derive(Clone, Copy)]
pub(crate) struct BenchServer {
    /// How long it takes to start.
    pub(crate) startup: Duration,
    /// The length of the text in its results.
    pub(crate) result: usize,
    pub(crate) tools: usize,
    pub(crate) era: BenchEra,
    /// Its tools change all the time, and it says so.
    pub(crate) restless: bool,
    /// The bytes that either direction holds, in memory.
    pub(crate) buffer: usize,
}

/// Which way it is to be spoken to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchEra {
    Legacy,
    Modern,
}

impl Default for BenchServer {
    fn default() -> Self {
        Self {
            startup: Duration::ZERO,
            result: 40,
            tools: 1,
            era: BenchEra::Legacy,
            restless: false,
            buffer: 64 * 1024,
        }
    }
}

impl BenchServer {
    /// A line transport with this server at its other end, in a task.
    pub(crate) fn in_memory(self) -> Box<dyn Transport> {
        let (near, remote) = tokio::io::duplex(self.buffer);
        tokio::spawn(self.answer_all(remote));
        let (reader, writer) = tokio::io::split(near);
        Box::new(Lines::new(reader, writer, Limits::default()))
    }

    /// A supervised server: this one, in memory.
    pub(crate) fn server_in_memory(self, name: &str) -> ServerBuilder<CustomTarget> {
        ServerConfig::custom(name, name, Arc::new(InMemory(self)))
    }

    /// This server as a process, and the transport to it.
    pub(crate) fn process(self) -> Fallible<(Child, Box<dyn Transport>)> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(self.arguments())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().ok_or("stdin is piped")?;
        let stdout = child.stdout.take().ok_or("stdout is piped")?;
        Ok((child, Box::new(Lines::new(stdout, stdin, Limits::default()))))
    }

    /// A supervised server: this one, as a process.
    pub(crate) fn server_process(self, name: &str) -> Fallible<ServerBuilder<StdioTarget>> {
        let program = std::env::current_exe()?;
        Ok(ServerConfig::stdio(name, program.display().to_string()).args(self.arguments()))
    }

    fn arguments(self) -> [String; 3] {
        [
            SERVE.to_owned(),
            self.startup.as_millis().to_string(),
            self.result.to_string(),
        ]
    }

    async fn answer_all(self, stream: DuplexStream) {
        let mut answers = Answers::new(self);
        let (reader, mut writer) = tokio::io::split(stream);
        let mut reader = pin!(BufReader::new(reader));
        let (mut line, mut out) = (Vec::new(), Vec::new());
        while reader
            .read_until(b'\n', &mut line)
            .await
            .is_ok_and(|read| read > 0)
        {
            answers.answer(&line, &mut out);
            if writer.write_all(&out).await.is_err() {
                return;
            }
            line.clear();
            out.clear();
        }
    }
}

struct InMemory(BenchServer);

impl Connector for InMemory {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async { Ok(self.0.in_memory()) })
    }
}

/// Is the server, until its input ends.
pub(crate) fn serve(settings: &[&str]) -> Fallible {
    let [startup, result] = *settings else {
        return Err("how long does it start, how long are its results?".into());
    };
    let remote = BenchServer {
        startup: Duration::from_millis(startup.parse()?),
        result: result.parse()?,
        ..BenchServer::default()
    };
    std::thread::sleep(remote.startup);
    let mut answers = Answers::new(remote);
    answer_lines(|line, out| answers.answer(line, out))
}

/// Writes the same bytes for each line.
pub(crate) fn pipe(length: usize) -> Fallible {
    let bytes = vec![b'x'; length];
    answer_lines(|_, out| out.extend_from_slice(&bytes))
}

fn answer_lines(mut answer: impl FnMut(&[u8], &mut Vec<u8>)) -> Fallible {
    let mut stdin = std::io::stdin().lock();
    // Not through `Stdout`, which searches all it is given for a line end.
    let mut stdout = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let (mut line, mut out) = (Vec::new(), Vec::new());
    while stdin.read_until(b'\n', &mut line)? > 0 {
        answer(&line, &mut out);
        stdout.write_all(&out)?;
        line.clear();
        out.clear();
    }
    Ok(())
}
