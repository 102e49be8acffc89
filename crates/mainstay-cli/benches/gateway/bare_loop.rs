//! The least there can be between HTTP and a server on standard input and output: this program, started again with the
//! words that [`arguments`] gives. Beside it is seen what is possible at all on a machine, and what supervision costs.
//!
//! A message that is posted goes to the server with a number for its id, and the answer with that number goes back: no
//! sessions, deadlines or bounds, and everything else that a server sends is dropped. One thread; each request is answered on the
//! task of its connection; what waits for the server is one write, and each answer of one read is handed out before the next.

use std::collections::HashMap;
use std::convert::Infallible;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use memchr::{memchr, memmem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, oneshot};

use crate::client::{INITIALIZE, INITIALIZED};
use crate::echo::{Echo, id_in};
use crate::{Fallible, runtime};

const WORD: &str = "be-a-loop";

const READ: usize = 64 * 1024;

/// The words that make this program a loop around this server. Its first line on standard output is its port.
pub(crate) fn arguments(server: Echo) -> Vec<String> {
    let mut words = server.arguments();
    words.insert(0, WORD.to_owned());
    words
}

/// The server that this program is to be a loop around, if these words say so.
pub(crate) fn from_arguments(words: &[&str]) -> Option<Fallible<Echo>> {
    let (&WORD, server) = words.split_first()? else {
        return None;
    };
    Some(Echo::from_arguments(server).unwrap_or_else(|| Err("a loop needs a server".into())))
}

/// Is a loop around this server, until it is killed.
pub(crate) fn run(server: Echo) -> Fallible {
    runtime()?.block_on(async {
        let mut child = Command::new(std::env::current_exe()?)
            .args(server.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let between = Arc::new(Between::default());
        let input = child.stdin.take().ok_or("stdin is piped")?;
        let output = child.stdout.take().ok_or("stdout is piped")?;
        tokio::spawn(between.clone().write(input));
        tokio::spawn(between.clone().read(output));
        let greeting = between.ask(INITIALIZE.as_bytes()).await.ok_or("a greeting")?;
        between.tell(INITIALIZED.as_bytes());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (between, greeting) = (between.clone(), greeting.clone());
            tokio::spawn(async move {
                let service = service_fn(|request| post(&between, &greeting, request));
                let talk = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                let _client_is_gone = talk.await;
            });
        }
    })
}

/// Answers one POST. All clients are greeted with what the server said when it was started.
async fn post(
    between: &Between,
    greeting: &Bytes,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::default());
    let Ok(body) = request.into_body().collect().await else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let message = body.to_bytes();
    if id_in(&message).is_none() {
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let answer = if memmem::find(&message, b"\"initialize\"").is_some() {
        headers.insert("mcp-session-id", HeaderValue::from_static("0123456789abcdef"));
        Some(greeting.clone())
    } else {
        between.ask(&message).await
    };
    match answer {
        Some(answer) => *response.body_mut() = Full::new(answer),
        None => *response.status_mut() = StatusCode::BAD_GATEWAY,
    }
    Ok(response)
}

/// What is on its way to the server and back.
#[derive(Default)]
struct Between {
    state: Mutex<LoopState>,
    /// There is something to write.
    written: Notify,
}

#[derive(Default)]
struct LoopState {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Bytes>>,
    out: Vec<u8>,
}

impl Between {
    /// Asks the server; gives its answer under the id of the question.
    async fn ask(&self, message: &[u8]) -> Option<Bytes> {
        let id = id_in(message)?;
        let answer = {
            let mut state = self.state();
            state.last += 1;
            let number = state.last;
            renamed(message, &number.to_string().into_bytes(), &mut state.out)?;
            state.out.push(b'\n');
            let (sender, answer) = oneshot::channel();
            state.waiting.insert(number, sender);
            answer
        };
        self.written.notify_one();
        let answer = answer.await.ok()?;
        let mut body = Vec::with_capacity(answer.len() + id.len());
        renamed(&answer, &message[id], &mut body)?;
        Some(body.into())
    }

    fn tell(&self, message: &[u8]) {
        let mut state = self.state();
        state.out.extend_from_slice(message);
        state.out.push(b'\n');
        self.written.notify_one();
    }

    async fn write(self: Arc<Self>, mut input: ChildStdin) -> std::io::Result<()> {
        let mut out = Vec::new();
        loop {
            self.written.notified().await;
            std::mem::swap(&mut out, &mut self.state().out);
            input.write_all(&out).await?;
            out.clear();
        }
    }

    async fn read(self: Arc<Self>, mut output: ChildStdout) -> std::io::Result<()> {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(READ);
            if output.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            while let Some(end) = memchr(b'\n', &buffer) {
                self.hand_out(buffer.split_to(end + 1).freeze());
            }
        }
    }

    fn hand_out(&self, line: Bytes) {
        let number = id_in(&line).and_then(|id| std::str::from_utf8(&line[id]).ok()?.parse().ok());
        let waiting = number.and_then(|number: u64| self.state().waiting.remove(&number));
        if let Some(waiting) = waiting {
            let _gone = waiting.send(line);
        }
    }

    fn state(&self) -> MutexGuard<'_, LoopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a message with another id.
fn renamed(message: &[u8], id: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let at = id_in(message)?;
    out.extend_from_slice(&message[..at.start]);
    out.extend_from_slice(id);
    out.extend_from_slice(&message[at.end..]);
    Some(())
}
