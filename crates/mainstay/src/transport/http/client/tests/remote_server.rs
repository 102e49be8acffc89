//! A remote peer that speaks HTTP just well enough, and an owner that notes what it is told.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

use crate::transport::http::{Http, HttpFailure, HttpOptions};
use crate::transport::{
    End, Frame, Inbound, MessageStream, Outbound, Oversized, Purpose, SendFailure, Transport,
};
use crate::wire::Outcome;

/// Longer than anything takes on a busy machine; reached only by a test that fails.
pub(crate) const LONG: Duration = mainstay_testkit::poll::LIMIT;

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

pub(crate) struct RemoteServer {
    url: String,
    asked: Mutex<mpsc::UnboundedReceiver<Exchange>>,
    listening: tokio::task::JoinHandle<()>,
}

/// One request that came in, to be answered by hand.
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Which connection it came on, from 1.
    pub(crate) connection: usize,
    wire: Box<dyn Wire>,
    /// Gives the connection back for the next request.
    again: oneshot::Sender<Box<dyn Wire>>,
}

impl RemoteServer {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    /// Listens at a certain address: what was there before came back.
    pub(crate) async fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (asked_in, asked) = mpsc::unbounded_channel();
        let listening = tokio::spawn(async move {
            let count = AtomicUsize::new(0);
            // Dropped with the listener, and with it every connection that waits for its next request.
            let mut serving = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                serving.spawn(serve(Box::new(stream), number, asked_in.clone()));
            }
        });
        Self {
            url,
            asked: Mutex::new(asked),
            listening,
        }
    }

    pub(crate) fn start_unix(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (asked_in, asked) = mpsc::unbounded_channel();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Box::new(stream), 1, asked_in.clone()));
            }
        });
        Self {
            url: String::new(),
            asked: Mutex::new(asked),
            listening,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn address(&self) -> &str {
        let rest = self.url.strip_prefix("http://").unwrap();
        rest.strip_suffix("/mcp").unwrap()
    }

    /// Listens no more and closes what is kept alive: who comes now is refused.
    pub(crate) async fn stop_listening(&mut self) {
        self.listening.abort();
        let _ = (&mut self.listening).await;
    }

    /// The next request.
    pub(crate) async fn next(&self) -> Exchange {
        let mut asked = self.asked.lock().await;
        timeout(LONG, asked.recv()).await.expect("a request").unwrap()
    }

    /// The next request, which must be of this method.
    pub(crate) async fn next_of(&self, method: &str) -> Exchange {
        let next = self.next().await;
        assert_eq!(next.method, method, "{}", next.body);
        next
    }

    /// Checks that nobody has asked anything.
    pub(crate) async fn asked_nothing(&self) {
        let asked = self.asked.lock().await.try_recv();
        assert!(asked.is_err(), "{}", asked.unwrap().body);
    }
}

async fn serve(mut wire: Box<dyn Wire>, connection: usize, asked: mpsc::UnboundedSender<Exchange>) {
    loop {
        let Some((head, body)) = read(&mut wire).await else {
            return;
        };
        let mut lines = head.lines();
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let (again, back) = oneshot::channel();
        let exchange = Exchange {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect(),
            body,
            connection,
            wire,
            again,
        };
        if asked.send(exchange).is_err() {
            return;
        }
        match back.await {
            Ok(given_back) => wire = given_back,
            Err(_) => return,
        }
    }
}

async fn read(wire: &mut Box<dyn Wire>) -> Option<(String, String)> {
    let mut buffer = Vec::new();
    let end = loop {
        if let Some(end) = memchr::memmem::find(&buffer, b"\r\n\r\n") {
            break end;
        }
        if wire.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")
                .map(str::to_owned)
        })
        .map_or(0, |length| length.parse().unwrap());
    let mut body = buffer.split_off(end + 4);
    while body.len() < length {
        if wire.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, String::from_utf8(body).unwrap()))
}

impl Exchange {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Answers with JSON.
    pub(crate) async fn json(self, status: u16, body: &str) {
        self.answer(status, "content-type: application/json\r\n", body)
            .await;
    }

    /// Answers with these headers, each with its line end, and this body.
    pub(crate) async fn answer(mut self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        self.write(&format!(
            "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        ))
        .await;
        let _ = self.again.send(self.wire);
    }

    /// Begins to answer with events.
    pub(crate) async fn events(&mut self, headers: &str) {
        self.write(&format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n{headers}\r\n"
        ))
        .await;
    }

    /// Sends a piece of the stream.
    pub(crate) async fn event(&mut self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// Ends the stream as it should be ended.
    pub(crate) async fn end(mut self) {
        self.write("0\r\n\r\n").await;
        let _ = self.again.send(self.wire);
    }

    /// Sends a piece of the stream, and its end with it.
    pub(crate) async fn last_event(mut self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len()))
            .await;
        let _ = self.again.send(self.wire);
    }

    pub(crate) async fn write(&mut self, text: &str) {
        let _ = self.wire.write_all(text.as_bytes()).await;
    }

    /// Whether the client goes away without an answer.
    pub(crate) async fn goes_away(mut self) -> bool {
        let gone = timeout(LONG, self.wire.read(&mut [0; 1]))
            .await
            .expect("it goes away");
        !matches!(gone, Ok(1..))
    }
}

/// What an owner is told.
#[derive(Debug)]
pub(crate) enum Received {
    Message(MessageStream, Bytes),
    Missed,
    Failed(u64, SendFailure),
    Retired(End),
    Ended(End),
}

pub(crate) struct Owner {
    pub(crate) outbound: Arc<dyn Outbound>,
    received: mpsc::UnboundedReceiver<Received>,
}

struct Notes(mpsc::UnboundedSender<Received>);

impl Inbound for Notes {
    fn message(&self, message: Bytes) {
        let _ = self.0.send(Received::Message(MessageStream::Only, message));
    }

    fn message_of(&self, request: u64, message: Bytes) {
        let stream = MessageStream::OfRequest(request);
        let _ = self.0.send(Received::Message(stream, message));
    }

    fn message_unasked(&self, message: Bytes) {
        let _ = self.0.send(Received::Message(MessageStream::Unasked, message));
    }

    fn oversized(&self, _skipped: Oversized<'_>) {
        unreachable!("over HTTP it is known whose answer is too long");
    }

    fn missed(&self) {
        let _ = self.0.send(Received::Missed);
    }

    fn failed(&self, request: u64, failure: SendFailure) {
        let _ = self.0.send(Received::Failed(request, failure));
    }

    fn retired(&self, end: End) {
        let _ = self.0.send(Received::Retired(end));
    }

    fn ended(&self, end: End) {
        let _ = self.0.send(Received::Ended(end));
    }
}

impl Owner {
    /// A remote peer, and a started transport to it.
    pub(crate) async fn start(options: HttpOptions) -> (RemoteServer, Self) {
        let remote = RemoteServer::start().await;
        let http = Http::new(remote.url(), options).unwrap();
        (remote, Self::over(http))
    }

    pub(crate) fn over(transport: impl Transport) -> Self {
        let (owner, inbound) = Self::of(transport.outbound());
        Box::new(transport).start(inbound);
        owner
    }

    pub(crate) fn of(outbound: Arc<dyn Outbound>) -> (Self, Arc<dyn Inbound>) {
        let (received_in, received) = mpsc::unbounded_channel();
        (Self { outbound, received }, Arc::new(Notes(received_in)))
    }

    /// A remote server, and a transport in a session with it that has no stream of the server's own.
    pub(crate) async fn start_session() -> (RemoteServer, Self) {
        let (remote, mut owner) = Self::start(HttpOptions::new()).await;
        let standing = Self::session(&remote, &mut owner).await;
        standing.answer(405, "", "").await;
        (remote, owner)
    }

    /// A session, opened and initialized; the remote peer has its GET still to answer.
    pub(crate) async fn session(remote: &RemoteServer, owner: &mut Self) -> Exchange {
        owner.ask(1, "initialize");
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#;
        let asked = remote.next_of("POST").await;
        assert_eq!(asked.header("mcp-session-id"), None);
        asked
            .answer(
                200,
                "content-type: application/json\r\nmcp-session-id: s1\r\n",
                answer,
            )
            .await;
        owner.message().await;
        owner.send(INITIALIZED.into(), Purpose::Notification);
        let told = remote.next_of("POST").await;
        assert_eq!(told.body, INITIALIZED);
        told.answer(202, "", "").await;
        remote.next_of("GET").await
    }

    pub(crate) fn ask(&self, id: u64, method: &str) {
        self.send(request(id, method), Purpose::Request { id });
    }

    /// Takes a request back, and tells the remote peer so.
    pub(crate) fn cancel(&self, id: u64, cancel: &str) {
        self.outbound.withdraw(id);
        self.send(cancel.to_owned(), Purpose::Cancel { id });
    }

    pub(crate) fn send(&self, text: String, purpose: Purpose) {
        self.outbound.try_send(Frame::new(text.into(), purpose)).unwrap();
    }

    pub(crate) async fn received(&mut self) -> Received {
        timeout(LONG, self.received.recv())
            .await
            .expect("to hear something")
            .unwrap()
    }

    pub(crate) async fn message(&mut self) -> String {
        self.message_and_stream().await.1
    }

    /// The next message, and the stream that it came on.
    pub(crate) async fn message_and_stream(&mut self) -> (MessageStream, String) {
        match self.received().await {
            Received::Message(stream, message) => (stream, String::from_utf8(message.to_vec()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn failure(&mut self, id: u64) -> (Outcome, HttpFailure) {
        match self.received().await {
            Received::Failed(request, failure) if request == id => {
                let error = failure
                    .error()
                    .downcast_ref::<HttpFailure>()
                    .expect("a failure of HTTP");
                (failure.outcome(), error.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn end(&mut self) -> End {
        match self.received().await {
            Received::Ended(end) => end,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn retirement(&mut self) -> End {
        match self.received().await {
            Received::Retired(end) => end,
            other => panic!("{other:?}"),
        }
    }

    /// Checks that after the end nothing is told.
    pub(crate) async fn nothing_more(mut self) {
        drop(self.outbound);
        let more = timeout(LONG, self.received.recv())
            .await
            .expect("the owner is let go");
        assert!(more.is_none(), "{more:?}");
    }
}

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A request.
pub(crate) fn request(id: u64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

/// An answer.
pub(crate) fn json(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}
