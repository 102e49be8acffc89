//! Answers on the wire: whole ones, streams of events, and what takes their place.

use std::sync::Arc;

use serde_json::Value;

use super::fault::{BadStream, Redirect};
use super::out::{BYTE_ORDER_MARK, ConnectionEnd, Out, wait};
use super::plan::{Instead, Plan};
use super::server::HttpServerCore;
use super::stream::{AnswerStream, ServedItem};
use super::wire::ResponseHead;

/// Bytes of a huge body that are written at a time.
const PIECE: usize = 64 * 1024;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Sends what is to be said in answer to one request.
pub(super) struct Replier<'a> {
    pub(super) server: &'a Arc<HttpServerCore>,
    pub(super) out: &'a mut Out,
    pub(super) plan: &'a Plan,
}

/// How a stream of events is written.
#[derive(Clone, Debug, Default)]
pub(super) struct EventStreamOptions {
    /// Headers besides those of every stream.
    pub(super) headers: Vec<(String, String)>,
    /// The first message to send.
    pub(super) from: usize,
    /// Whether events have ids.
    pub(super) ids: bool,
    /// What comes before the first message.
    pub(super) opening: String,
}

impl Replier<'_> {
    /// A status without a body.
    pub(super) async fn bare(&mut self, head: ResponseHead) -> Result<(), ConnectionEnd> {
        self.out.whole(head, b"", self.plan).await
    }

    /// A status with a JSON body.
    pub(super) async fn json(&mut self, head: ResponseHead, body: &[u8]) -> Result<(), ConnectionEnd> {
        let head = head.with("Content-Type", self.content_type(JSON));
        self.out.whole(head, body, self.plan).await
    }

    /// The answer of `stream` as one JSON body. Without an answer it waits, until the client hangs up.
    pub(super) async fn answer(
        &mut self,
        stream: &AnswerStream,
        head: ResponseHead,
    ) -> Result<(), ConnectionEnd> {
        match stream.take_over().answer().await {
            ServedItem::Message(answer) => self.json(head, &answer).await,
            ServedItem::End => Err(ConnectionEnd::Close),
        }
    }

    /// The messages of `stream` as events, to its end.
    pub(super) async fn events(
        &mut self,
        stream: &AnswerStream,
        options: &EventStreamOptions,
    ) -> Result<(), ConnectionEnd> {
        let _live = LiveStream::new(self.server);
        let head = ResponseHead::new(200)
            .with("Content-Type", self.content_type(EVENTS))
            .with("Cache-Control", "no-cache")
            .with("Transfer-Encoding", "chunked")
            .with_all(&options.headers);
        let mut reader = stream.take_over();
        self.out.head(head, self.plan).await?;
        if self.plan.silent {
            return std::future::pending().await;
        }
        let mut chunks = self.out.chunks(self.plan.drop_after);
        if self.plan.byte_order_mark {
            chunks.send(BYTE_ORDER_MARK).await?;
        }
        if !options.opening.is_empty() {
            chunks.send(options.opening.as_bytes()).await?;
        }
        match self.plan.bad_stream {
            Some(BadStream::NoAnswer) => return chunks.finish().await,
            Some(BadStream::HugeEvent(bytes)) => {
                chunks.send(b"data: ").await?;
                for piece in pieces(bytes) {
                    chunks.send(&vec![b'x'; piece]).await?;
                }
                chunks.send(b"\n\n").await?;
            }
            Some(BadStream::NoData) => {
                chunks
                    .send(b": a comment\n\nevent: message\n\nid: stray\n\nfoo: bar\n\n")
                    .await?;
            }
            Some(BadStream::InvalidUtf8) => chunks.send(b"data: caf\xe9 \xff\n\n").await?,
            Some(BadStream::NotJson) => chunks.send(b"data: hello there\n\n").await?,
            Some(BadStream::NoBlankLine) | None => {}
        }
        let end = if self.plan.bad_stream == Some(BadStream::NoBlankLine) {
            "\n"
        } else {
            "\n\n"
        };
        let mut written = 0;
        loop {
            if self.plan.drop_after_events == Some(written) {
                return Err(ConnectionEnd::Close);
            }
            if self.plan.end_after_events == Some(written) {
                return chunks.finish().await;
            }
            let position = options.from + written;
            let ServedItem::Message(message) = reader.next(position).await else {
                return chunks.finish().await;
            };
            written += 1;
            let mut event = String::from("event: message\n");
            if options.ids {
                event.push_str(&format!("id: {}\n", event_id(stream, position + 1)));
            }
            let event = [event.as_bytes(), b"data: ", &message, end.as_bytes()].concat();
            chunks.send(&event).await?;
        }
    }

    /// What takes the place of an answer. `id` is that of the request, `target` its path.
    pub(super) async fn instead(
        &mut self,
        instead: &Instead,
        id: &Value,
        target: &str,
    ) -> Result<(), ConnectionEnd> {
        match instead {
            Instead::NoHead => std::future::pending().await,
            Instead::Close => {
                wait(self.plan.delay).await;
                Err(ConnectionEnd::Close)
            }
            Instead::Reset => {
                wait(self.plan.delay).await;
                Err(ConnectionEnd::Reset)
            }
            Instead::NotHttp => {
                wait(self.plan.delay).await;
                self.out.send(b"SSH-2.0-OpenSSH_9.9\r\n").await?;
                Err(ConnectionEnd::Close)
            }
            Instead::HugeBody(bytes) => {
                let head = ResponseHead::new(200)
                    .with("Content-Type", self.content_type(JSON))
                    .with("Transfer-Encoding", "chunked");
                self.out.head(head, self.plan).await?;
                let mut chunks = self.out.chunks(self.plan.drop_after);
                let opening = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"fill":""#);
                chunks.send(opening.as_bytes()).await?;
                for piece in pieces(*bytes) {
                    chunks.send(&vec![b'x'; piece]).await?;
                }
                chunks.send(br#""}}"#).await?;
                chunks.finish().await
            }
            Instead::BadFraming => {
                let head = ResponseHead::new(200)
                    .with("Content-Type", self.content_type(JSON))
                    .with("Transfer-Encoding", "chunked");
                self.out.head(head, self.plan).await?;
                self.out.send(b"many\r\n{\"jsonrpc\"\r\n").await?;
                Err(ConnectionEnd::Close)
            }
            Instead::InvalidUtf8 => {
                let opening = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"text":""#);
                let body = [opening.as_bytes(), b"caf\xe9 \xff\"}}"].concat();
                self.json(ResponseHead::new(200), &body).await
            }
            Instead::Status { code, headers, body } => {
                let head = ResponseHead::new(*code).with_all(headers);
                if body.is_empty() {
                    self.bare(head).await
                } else {
                    self.json(head, body.as_bytes()).await
                }
            }
            Instead::Redirect { code, to } => {
                let location = match to {
                    Redirect::SameOrigin => "/moved",
                    Redirect::Itself => target,
                    Redirect::Elsewhere(url) => url,
                };
                self.bare(ResponseHead::new(*code).with("Location", location))
                    .await
            }
        }
    }

    fn content_type(&self, proper: &str) -> String {
        let bent = self.plan.content_type.clone();
        bent.unwrap_or_else(|| proper.to_owned())
    }
}

/// The id of the event after which `position` messages of this stream are known.
pub(super) fn event_id(stream: &AnswerStream, position: usize) -> String {
    format!("{}-{position}", stream.number())
}

/// The stream number and the position of an event id.
pub(super) fn parse_event_id(id: &str) -> Option<(usize, usize)> {
    let (stream, position) = id.split_once('-')?;
    Some((stream.parse().ok()?, position.parse().ok()?))
}

fn pieces(bytes: usize) -> impl Iterator<Item = usize> {
    let whole = std::iter::repeat_n(PIECE, bytes / PIECE);
    whole.chain(Some(bytes % PIECE).filter(|rest| *rest > 0))
}

/// Counts a stream for as long as it is sent.
struct LiveStream<'a>(&'a HttpServerCore);

impl<'a> LiveStream<'a> {
    fn new(server: &'a HttpServerCore) -> Self {
        server.count(|traffic| traffic.live_streams += 1);
        Self(server)
    }
}

impl Drop for LiveStream<'_> {
    fn drop(&mut self) {
        self.0.count(|traffic| traffic.live_streams -= 1);
    }
}
