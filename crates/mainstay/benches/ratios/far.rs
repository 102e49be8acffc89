//! The far side: a server that does next to nothing, in memory or as a process of its own.
//!
//! It looks for the id and the method in a line and parses nothing, so that what is timed is the near side. It is a
//! server of the older era: of the questions it does not know, the modern one is answered with "method not found".

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use mainstay::{RawJson, ServerConfig};
use memchr::memmem;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::process::{Child, Command};

use crate::Fallible;

/// Starts this program as a server: `SERVE start-up-in-milliseconds result-in-bytes`.
pub(crate) const SERVE: &str = "serve";
/// Starts this program as a mere writer, `PIPE length`: that many bytes for each line it reads.
pub(crate) const PIPE: &str = "pipe";

/// The tool that every far side has.
pub(crate) const TOOL: &str = "tool-0";

/// What a far side is like.
#[derive(Clone, Copy)]
pub(crate) struct Far {
    /// How long it takes to start.
    pub(crate) startup: Duration,
    /// The length of the text in its results.
    pub(crate) result: usize,
    pub(crate) tools: usize,
    /// Its tools change all the time, and it says so.
    pub(crate) restless: bool,
    /// The bytes that either direction holds, in memory.
    pub(crate) buffer: usize,
}

impl Default for Far {
    fn default() -> Self {
        Self {
            startup: Duration::ZERO,
            result: 40,
            tools: 1,
            restless: false,
            buffer: 64 * 1024,
        }
    }
}

impl Far {
    /// A line transport with this far side at its other end, in a task.
    pub(crate) fn in_memory(self) -> Box<dyn Transport> {
        let (near, far) = tokio::io::duplex(self.buffer);
        tokio::spawn(self.answer_all(far));
        let (reader, writer) = tokio::io::split(near);
        Box::new(Lines::new(reader, writer, Limits::default()))
    }

    /// A server of Mainstay's with this far side, in memory.
    pub(crate) fn server_in_memory(self, name: &str) -> mainstay::config::ServerBuilder {
        ServerConfig::custom(name, name, Arc::new(InMemory(self)))
    }

    /// This far side as a process, and the transport to it.
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

    /// A server of Mainstay's with this far side, as a process.
    pub(crate) fn server_process(self, name: &str) -> Fallible<mainstay::config::ServerBuilder> {
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

struct InMemory(Far);

impl Connector for InMemory {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async { Ok(self.0.in_memory()) })
    }
}

/// Is the far side, until its input ends.
pub(crate) fn serve(settings: &[&str]) -> Fallible {
    let [startup, result] = *settings else {
        return Err("how long does it start, how long are its results?".into());
    };
    let far = Far {
        startup: Duration::from_millis(startup.parse()?),
        result: result.parse()?,
        ..Far::default()
    };
    std::thread::sleep(far.startup);
    let mut answers = Answers::new(far);
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

/// What a far side says, made ready beforehand.
struct Answers {
    far: Far,
    result: RawJson,
    /// How often its tools were listed.
    listings: u64,
}

impl Answers {
    fn new(far: Far) -> Self {
        let text = "x".repeat(far.result);
        let result = json!({ "content": [{ "type": "text", "text": text }] });
        Self {
            far,
            result: RawJson::from_value(&result).expect("a value can be written"),
            listings: 0,
        }
    }

    fn answer(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some(id) = number_after(line, b"\"id\":") else {
            return;
        };
        let asks = |method: &[u8]| memmem::find(line, method).is_some();
        if asks(b"\"tools/call\"") {
            let result = self.result.clone();
            respond(out, id, "result", &result);
        } else if asks(b"\"initialize\"") {
            respond(
                out,
                id,
                "result",
                &raw(&json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": "far", "version": "1" },
                })),
            );
        } else if asks(b"\"tools/list\"") {
            let tools = self.tools();
            respond(out, id, "result", &tools);
            if self.far.restless {
                out.extend_from_slice(
                    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n",
                );
            }
        } else {
            respond(
                out,
                id,
                "error",
                &raw(&json!({ "code": -32601, "message": "no" })),
            );
        }
    }

    fn tools(&mut self) -> RawJson {
        self.listings += 1;
        let version = if self.far.restless { self.listings } else { 0 };
        let tool = |n| {
            json!({
                "name": format!("tool-{n}"),
                "description": format!("Does the thing number {n}, as of listing {version}."),
                "inputSchema": { "type": "object", "properties": { "message": { "type": "string" } } },
                "annotations": { "readOnlyHint": true },
            })
        };
        raw(&json!({ "tools": (0..self.far.tools).map(tool).collect::<Vec<_>>() }))
    }
}

fn raw(value: &serde_json::Value) -> RawJson {
    RawJson::from_value(value).expect("a value can be written")
}

fn respond(out: &mut Vec<u8>, id: u64, key: &str, payload: &RawJson) {
    write!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{key}\":").expect("memory takes any text");
    out.extend_from_slice(payload.as_bytes());
    out.extend_from_slice(b"}\n");
}

fn number_after(line: &[u8], key: &[u8]) -> Option<u64> {
    let at = memmem::find(line, key)? + key.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
