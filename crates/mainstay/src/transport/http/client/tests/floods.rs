//! RemoteServer sides that write faster than they are read: whatever comes, everybody else has a turn in between.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::thread;

use bytes::Bytes;
use http::Method;

use super::*;
use crate::transport::http::client::connection::{HEAD_LIMIT, Response};
use crate::transport::http::client::events::LINES_AT_ONCE;
use crate::transport::http::client::events::ResponseEvents;
use crate::transport::{End, Inbound, Oversized, SendFailure, Sse, Transport, Turn};
use crate::turn::tests::{TURNS_IN_A_ROW, most_in_between};

/// Messages in one flood: a few megabytes, so that a reader is never out of them.
const FLOOD: u32 = 40_000;

/// Comments in one stream.
const COMMENTS: usize = 2_000_000;

/// Answers what comes on threads of its own, so that it writes while the runtime reads.
fn flooding_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            // Whatever the client closes is closed.
            thread::spawn(move || drop(serve(stream)));
        }
    });
    format!("http://{address}/mcp")
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        received.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&received).into_owned();
        let Some(answer) = answer(&text) else {
            continue;
        };
        received.clear();
        stream.write_all(&answer)?;
    }
}

/// What is answered to a request, once it is whole.
fn answer(request: &str) -> Option<Vec<u8>> {
    if request.starts_with("GET /comments") {
        return Some(compressed_comments());
    }
    answer_in_text(request).map(String::into_bytes)
}

/// Comments and one event, so well compressed that all of it comes at once.
fn compressed_comments() -> Vec<u8> {
    let text = ":\n".repeat(COMMENTS) + "data: x\n\n";
    let body = miniz_oxide::deflate::compress_to_vec_zlib(text.as_bytes(), 9);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

fn answer_in_text(request: &str) -> Option<String> {
    const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let flood = || "data: {\"method\":\"notifications/message\"}\n\n".repeat(FLOOD as usize);
    if request.starts_with("GET /sse") {
        return Some(format!("{EVENTS}event: endpoint\ndata: /mcp\n\n{}", flood()));
    }
    if request.starts_with("GET /pings") {
        return Some(EVENTS.to_owned() + &"event: ping\ndata: x\n\n".repeat(FLOOD as usize));
    }
    if request.starts_with("GET /small") {
        let pieces = "1\r\nx\r\n".repeat(FLOOD as usize);
        return Some(format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n"
        ));
    }
    if request.starts_with("GET") {
        return Some(EVENTS.to_owned() + &flood());
    }
    let said = |word: &str| request.contains(word) && request.ends_with('}');
    if said("notifications/initialized") {
        return Some("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned());
    }
    if said("initialize") {
        let body = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#;
        return Some(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
    }
    if said("flood") {
        return Some(format!("{EVENTS}{}data: {}\n\n", flood(), json(1)));
    }
    if said("interim") {
        let interim = "HTTP/1.1 103 Hints\r\n\r\n".repeat(8 * HEAD_LIMIT as usize / 22);
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}",
            json(1).len(),
            json(1)
        );
        return Some(interim + &answer);
    }
    None
}

/// Counts messages.
#[derive(Default)]
struct Counted(Arc<AtomicU32>);

impl Inbound for Counted {
    fn message(&self, _message: Bytes) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn oversized(&self, _skipped: Oversized<'_>) {}

    fn failed(&self, _request: u64, failure: SendFailure) {
        panic!("{failure}");
    }

    fn retired(&self, _: End) {}

    fn ended(&self, _end: End) {}
}

/// Starts a transport, sends these messages one after the other, and counts the most messages in a turn.
async fn most_heard(transport: impl Transport, messages: &[(&str, Purpose)]) -> u32 {
    let inbound = Counted::default();
    let count = inbound.0.clone();
    let outbound = transport.outbound();
    Box::new(transport).start(Arc::new(inbound));
    for (text, purpose) in messages {
        let before = count.load(Ordering::Relaxed);
        let frame = Frame::new(Bytes::from((*text).to_owned()), *purpose);
        outbound.try_send(frame).unwrap();
        while text.contains("\"initialize\"") && count.load(Ordering::Relaxed) == before {
            tokio::task::yield_now().await;
        }
    }
    most_in_between(count, FLOOD).await
}

#[tokio::test]
async fn a_flood_on_the_stream_of_a_server_leaves_everybody_their_turn() {
    let http = Http::new(flooding_server(), HttpOptions::new()).unwrap();
    let initialize = request(1, "initialize");
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let messages = [
        (initialize.as_str(), Purpose::Request { id: 1 }),
        (initialized, Purpose::Notification),
    ];
    let most = most_heard(http, &messages).await;
    assert!(most <= TURNS_IN_A_ROW * Turn::MESSAGES, "{most} messages at once");
}

#[tokio::test]
async fn a_flood_in_an_answer_leaves_everybody_their_turn() {
    let http = Http::new(flooding_server(), HttpOptions::new()).unwrap();
    let flood = request(1, "flood");
    let most = most_heard(http, &[(&flood, Purpose::Request { id: 1 })]).await;
    assert!(most <= TURNS_IN_A_ROW * Turn::MESSAGES, "{most} messages at once");
}

#[tokio::test]
async fn a_flood_on_the_stream_of_http_and_sse_leaves_everybody_their_turn() {
    let sse = Sse::new(flooding_server().replace("/mcp", "/sse"), HttpOptions::new()).unwrap();
    let most = most_heard(sse, &[]).await;
    assert!(most <= TURNS_IN_A_ROW * Turn::MESSAGES, "{most} messages at once");
}

/// The answer to a GET of this path.
async fn response(path: &str) -> Response {
    let url = flooding_server().replace("/mcp", path);
    let endpoint = Endpoint::new(&url, HttpOptions::new()).unwrap();
    let request = endpoint.request(Method::GET).await.unwrap();
    endpoint.send(&request, None).await.unwrap()
}

#[tokio::test]
async fn events_without_a_message_leave_everybody_their_turn() {
    let mut events = ResponseEvents::new(response("/pings").await, 1024);
    let events_read = Arc::new(AtomicU32::new(0));
    let count = events_read.clone();
    // The runtime's own budget would count reads of the socket, and not events.
    tokio::spawn(tokio::task::unconstrained(async move {
        while let Ok(event) = events.next().await {
            assert_eq!(event.kind, "ping");
            events_read.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let most = most_in_between(count, FLOOD).await;
    assert!(most <= TURNS_IN_A_ROW * Turn::MESSAGES, "{most} events at once");
}

#[tokio::test]
async fn comments_without_end_leave_everybody_their_turn() {
    let mut events = ResponseEvents::new(response("/comments").await, 1024);
    let turns = Arc::new(AtomicU32::new(0));
    let count = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let event = tokio::spawn(tokio::task::unconstrained(async move { events.next().await }));
    assert_eq!(event.await.unwrap().unwrap().data.as_deref(), Some(&b"x"[..]));
    other.abort();
    let expected = COMMENTS / LINES_AT_ONCE / Turn::MESSAGES as usize;
    let turns = turns.load(Ordering::Relaxed);
    assert!(
        turns as usize >= expected / 2,
        "{turns} turns in {COMMENTS} comments"
    );
}

#[tokio::test]
async fn an_answer_in_the_smallest_pieces_leaves_everybody_their_turn() {
    let mut response = response("/small").await;
    let pieces = Arc::new(AtomicU32::new(0));
    let count = pieces.clone();
    tokio::spawn(tokio::task::unconstrained(async move {
        while response.chunk().await.unwrap().is_some() {
            pieces.fetch_add(1, Ordering::Relaxed);
        }
    }));
    // Hyper wakes the reader again while it yields. So the other task queues like one that is woken: the runtime would let one that
    // yields wait for some dozen turns of the reader.
    let other = async move {
        let (mut last, mut most) = (0, 0);
        while last < FLOOD {
            wait_in_the_queue().await;
            let now = count.load(Ordering::Relaxed);
            most = most.max(now - last);
            last = now;
        }
        most
    };
    let most = tokio::spawn(other).await.unwrap();
    assert!(most <= TURNS_IN_A_ROW * Turn::MESSAGES, "{most} pieces at once");
}

/// Lets the tasks run that are ready now.
async fn wait_in_the_queue() {
    let mut has_waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn interim_answers_without_end_fail_the_request() {
    let http = Http::new(flooding_server(), HttpOptions::new()).unwrap();
    let mut owner = Owner::over(http);
    owner.ask(1, "interim");
    let (outcome, failure) = owner.failure(1).await;
    assert_eq!(outcome, Outcome::Unknown);
    assert!(
        matches!(&failure, HttpFailure::Malformed { message } if message.contains("interim")),
        "{failure}"
    );
}

#[tokio::test]
async fn a_reader_that_never_waits_is_made_to_wait_when_its_turn_is_over() {
    use crate::transport::http::client::socket::CountedSocket;
    use tokio::io::AsyncReadExt as _;
    const PIECE: usize = 16 * 1024;
    const TOTAL: usize = 16 * 1024 * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.accept().unwrap().0.write_all(&vec![b'x'; TOTAL]));
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut counted, _counters) = CountedSocket::new(stream);
    let pieces = Arc::new(AtomicU32::new(0));
    let count = pieces.clone();
    tokio::spawn(async move {
        let mut buffer = [0; PIECE];
        // The runtime's own budget would count reads, and not bytes.
        let reading = async {
            let mut read = 0;
            while read < TOTAL {
                read += counted.read(&mut buffer).await.unwrap();
                pieces.store(u32::try_from(read / PIECE).unwrap(), Ordering::Relaxed);
            }
        };
        tokio::task::unconstrained(reading).await;
    });
    let most = most_in_between(count, u32::try_from(TOTAL / PIECE).unwrap()).await;
    let allowed = TURNS_IN_A_ROW as usize * (Turn::BYTES / PIECE + 1);
    assert!(most as usize <= allowed, "{most} pieces at once");
}
