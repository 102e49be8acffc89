//! The server over HTTP: a process with one thread that answers every POST with JSON, at once.
//!
//! It reads of HTTP what the clients here write, and keeps its connections. One call it never answers, and says on its
//! output when that has come. A GET of `/last` gives back the last call as it came, head and body, so that others can
//! send the same bytes.

use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mainstay::ServerConfig;
use mainstay::config::{HttpTarget, ServerBuilder};
use memchr::memmem;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};

use crate::answers::Answers;
use crate::server::{BenchEra, BenchServer};
use crate::{Fallible, runtime};

/// Starts this program as a server over HTTP: `SERVE_HTTP port era`. Its first line is the port that it listens on, and
/// since when, in nanoseconds of the system's time.
pub(crate) const SERVE_HTTP: &str = "serve-http";

/// The argument of the call that is never answered.
pub(crate) const HANG: &str = "unanswered";

/// The longest message of a client here.
const LONGEST: usize = 64 * 1024;

/// A server that runs.
pub(crate) struct HttpBenchServer {
    pub(crate) port: u16,
    /// When it began to listen. By the system's clock, which it shares with this process.
    pub(crate) since: SystemTime,
    era: BenchEra,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl HttpBenchServer {
    pub(crate) async fn start(era: BenchEra) -> Fallible<Self> {
        Self::start_at(0, era).await
    }

    /// The same server again, where it was.
    pub(crate) async fn again(&self) -> Fallible<Self> {
        Self::start_at(self.port, self.era).await
    }

    /// Comes back when it listens.
    async fn start_at(port: u16, era: BenchEra) -> Fallible<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([SERVE_HTTP, &port.to_string(), era.name()])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next_line().await?.ok_or("it does not listen")?;
        let (port, since) = first.split_once(' ').ok_or("it says where and when")?;
        Ok(Self {
            port: port.parse()?,
            since: SystemTime::UNIX_EPOCH + Duration::from_nanos(since.parse()?),
            era,
            child,
            lines,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// This server, supervised.
    pub(crate) fn server(&self, name: &str) -> Fallible<ServerBuilder<HttpTarget>> {
        Ok(ServerConfig::http(name, self.url()))
    }

    /// Comes back when a call that is never answered has come.
    pub(crate) async fn hangs(&mut self) -> Fallible {
        self.lines.next_line().await?.ok_or("it is gone")?;
        Ok(())
    }

    pub(crate) fn kill(&self) -> Fallible {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(kill_process(pid.ok_or("it runs")?, Signal::KILL)?)
    }

    /// Comes back when it is dead.
    pub(crate) async fn dead(&mut self) -> Fallible {
        self.child.wait().await?;
        Ok(())
    }
}

/// Is the server, until it is killed.
pub(crate) fn serve(port: u16, era: &str) -> Fallible {
    let era = BenchEra::named(era).ok_or("which era?")?;
    runtime()?.block_on(async {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        println!("{} {}", listener.local_addr()?.port(), since.as_nanos());
        let last = Arc::new(Mutex::new(Vec::new()));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(answer_all(stream, era, last.clone()));
        }
    })
}

/// Answers one connection until it ends, or until a request is none.
async fn answer_all(mut stream: TcpStream, era: BenchEra, last: Arc<Mutex<Vec<u8>>>) -> Option<()> {
    let remote = BenchServer {
        era,
        ..BenchServer::default()
    };
    let mut answers = Answers::new(remote);
    let (mut request, mut body, mut out) = (Vec::with_capacity(LONGEST), Vec::new(), Vec::new());
    loop {
        let head = read_request(&mut stream, &mut request).await?;
        let message = &request[head..];
        body.clear();
        out.clear();
        if request.starts_with(b"GET /last ") {
            body.extend_from_slice(&last.lock().unwrap_or_else(PoisonError::into_inner));
        } else if memmem::find(message, HANG.as_bytes()).is_some() {
            println!("{HANG}");
            request.clear();
            continue;
        } else {
            answers.answer(message, &mut body);
        }
        if memmem::find(message, b"\"tools/call\"").is_some() {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            last.clone_from(&request);
        }
        let opens = era == BenchEra::Legacy && memmem::find(message, b"\"initialize\"").is_some();
        respond(&mut out, status(&request, &body), opens, &body);
        stream.write_all(&out).await.ok()?;
        request.clear();
    }
}

/// Reads one request; says where its body begins.
async fn read_request(stream: &mut TcpStream, request: &mut Vec<u8>) -> Option<usize> {
    loop {
        if let Some(end) = memmem::find(request, b"\r\n\r\n") {
            let head = end + 4;
            if request.len() >= head + content_length(&request[..head]) {
                return Some(head);
            }
        }
        if request.len() > LONGEST || stream.read_buf(request).await.ok()? == 0 {
            return None;
        }
    }
}

/// The length of the body that a head announces. Both clients here write the name in small letters.
pub(crate) fn content_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length: ";
    let Some(at) = memmem::find(head, NAME) else {
        return 0;
    };
    let digits = head[at + NAME.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}

fn status(request: &[u8], body: &[u8]) -> &'static str {
    match request {
        [b'P', ..] if body.is_empty() => "202 Accepted",
        [b'G', ..] if body.is_empty() => "405 Method Not Allowed",
        _ => "200 OK",
    }
}

pub(crate) fn respond(out: &mut Vec<u8>, status: &str, opens_session: bool, body: &[u8]) {
    let session = if opens_session {
        "mcp-session-id: 0123456789abcdef0123456789abcdef\r\n"
    } else {
        ""
    };
    let length = body.len();
    write!(
        out,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{session}content-length: {length}\r\n\r\n"
    )
    .expect("memory takes any text");
    out.extend_from_slice(body);
}

impl BenchEra {
    fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Legacy, Self::Modern]
            .into_iter()
            .find(|era| era.name() == name)
    }
}
