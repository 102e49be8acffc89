//! The remote peer, and what the near side hands on.

use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};

use crate::recorder::ConnectionRecorder;
use crate::transport::{Frame, Inbound, Limits, Lines, NotQueued, Outbound, Sending, Transport};
use crate::wire::progress::ProgressSink;
use crate::wire::{Handler, MessageOrigin, Peer, RawJson, RequestOptions, RpcError};

pub(super) fn raw(text: &str) -> RawJson {
    RawJson::from_text(text).unwrap()
}

pub(super) fn within(seconds: u64) -> RequestOptions {
    RequestOptions::within(Duration::from_secs(seconds))
}

pub(super) fn connect() -> (Peer, RemotePeer, Arc<Log>) {
    connect_with(Limits::default(), 64 * 1024)
}

/// A connection that holds so many bytes in each direction before the writer must wait.
pub(super) fn connect_with(limits: Limits, holds: usize) -> (Peer, RemotePeer, Arc<Log>) {
    let (near, remote) = duplex(holds);
    let (reader, writer) = split(near);
    let log = Arc::new(Log::default());
    let peer = Peer::start(
        Box::new(Lines::new(reader, writer, limits)),
        log.clone(),
        ConnectionRecorder::default(),
    );
    let (reader, writer) = split(remote);
    let remote = RemotePeer {
        reader: BufReader::new(reader),
        writer,
    };
    (peer, remote, log)
}

pub(super) struct RemotePeer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl RemotePeer {
    pub(super) async fn read(&mut self) -> String {
        let mut line = self.read_line().await.expect("a line in time");
        assert_eq!(line.pop(), Some('\n'), "a whole line");
        line
    }

    /// Asserts that nothing more was written.
    pub(super) async fn reads_nothing(&mut self) {
        assert_eq!(self.read_line().await, None);
    }

    pub(super) async fn reads_the_end(mut self) {
        assert_eq!(self.read_line().await.as_deref(), Some(""));
    }

    /// The next line, empty at the end of the input; nothing when none comes in an hour of paused time.
    async fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line);
        let read = tokio::time::timeout(Duration::from_secs(3600), read).await.ok()?;
        read.map(|_| line).ok()
    }

    pub(super) async fn write(&mut self, line: &str) {
        self.write_bytes(&[line.as_bytes(), b"\n"].concat()).await;
    }

    pub(super) async fn write_bytes(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
    }

    pub(super) async fn write_until_closed(&mut self, bytes: &[u8]) {
        while self.writer.write_all(bytes).await.is_ok() {}
    }

    pub(super) async fn answer(&mut self, id: u64, result: &str) {
        self.write(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
            .await;
    }

    pub(super) async fn progress(&mut self, token: &str, more: &str) {
        let params = format!(r#"{{"progressToken":{token}{more}}}"#);
        self.write(&format!(
            r#"{{"method":"notifications/progress","params":{params}}}"#
        ))
        .await;
    }

    /// Lets every task run until all of them wait.
    pub(super) async fn settle(&mut self) {
        settle().await;
    }
}

/// Lets every task run until all of them wait, at no cost of time.
pub(super) async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// Polls a future once, and leaves it waiting.
pub(super) async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) {
    std::future::poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Notes the methods it is given; answers a ping, and nothing else.
#[derive(Default)]
pub(super) struct Log(Mutex<Vec<String>>);

impl Log {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn note(&self, text: &str) {
        assert_ne!(text, "panic", "asked to");
        self.0.lock().unwrap().push(text.into());
    }
}

impl Handler for Log {
    fn request(
        &self,
        peer: &Peer,
        id: RawJson,
        method: &str,
        _params: Option<RawJson>,
        _cause: MessageOrigin,
    ) {
        self.note(method);
        let answer = match method {
            "ping" => Ok(RawJson::EMPTY_OBJECT),
            _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such method")),
        };
        peer.respond(&id, answer);
    }

    fn notification(&self, method: &str, _params: Option<RawJson>, _cause: MessageOrigin) {
        self.note(method);
    }

    fn noise(&self, text: &[u8]) {
        self.note(&format!("noise: {}", String::from_utf8_lossy(text)));
    }
}

/// A progress sink, and what it was given.
pub(super) fn collect() -> (ProgressSink, Arc<Log>) {
    let log = Arc::new(Log::default());
    let noted = log.clone();
    (Arc::new(move |params: RawJson| noted.note(params.as_str())), log)
}

/// A transport that carries nothing; the test plays its receiving side.
pub(super) struct Unconnected(Arc<OnceLock<Arc<dyn Inbound>>>);

impl Unconnected {
    pub(super) fn new() -> (Self, Arc<OnceLock<Arc<dyn Inbound>>>) {
        let inbound = Arc::new(OnceLock::new());
        (Self(inbound.clone()), inbound)
    }
}

impl Transport for Unconnected {
    fn outbound(&self) -> Arc<dyn Outbound> {
        Arc::new(Nowhere)
    }

    fn start(self: Box<Self>, inbound: Arc<dyn Inbound>) {
        assert!(self.0.set(inbound).is_ok());
    }
}

struct Nowhere;

impl Outbound for Nowhere {
    fn send(&self, _frame: Frame) -> Sending<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn try_send(&self, _frame: Frame) -> Result<(), NotQueued> {
        Ok(())
    }

    fn close(&self) {}
}
