use http::HeaderMap;
use mainstay_testkit::poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::*;
use crate::transport::http::HttpOptions;
use crate::transport::http::client::dialer::DialledStream;
use crate::transport::http::client::tls;

/// How long connections are kept here.
const KEPT: Duration = Duration::from_secs(40);

const SOON: Duration = poll::LIMIT;

fn pool(url: &str) -> Arc<Pool> {
    let (url, options) = (Url::parse(url).unwrap(), HttpOptions::new());
    let dialer = Dialer::new(&url, &options, &HeaderMap::new()).unwrap();
    Arc::new(Pool::new(dialer, tls::config(false, &options).unwrap(), SOON))
}

async fn listening() -> (TcpListener, Arc<Pool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = pool(&format!("http://{}", listener.local_addr().unwrap()));
    (listener, pool)
}

/// Reads one request, which has no body, and answers it so.
async fn answer(stream: &mut TcpStream, answer: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
}

async fn body(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.unwrap() {
        body.extend_from_slice(&piece);
    }
    String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn a_connection_is_used_again_and_one_that_was_closed_meanwhile_is_not() {
    let (listener, pool) = listening().await;
    let remote = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        answer(&mut first, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none").await;
        answer(&mut first, "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
        answer(&mut first, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthree").await;
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        answer(&mut second, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfour").await;
    });
    let one = pool.send(PoolRequest::default()).await.unwrap();
    assert_eq!(body(one).await, "one");
    pool.send(PoolRequest::default()).await.unwrap().discard();
    let three = pool.send(PoolRequest::default()).await.unwrap();
    assert_eq!(body(three).await, "three");
    let four = pool.send(PoolRequest::default()).await.unwrap();
    assert_eq!(body(four).await, "four");
    remote.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_nobody_reads_to_its_end_closes_its_connection() {
    let (listener, pool) = listening().await;
    let remote = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
        stream.read(&mut [0]).await.unwrap_or(0)
    });
    let mut response = pool.send(PoolRequest::default()).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "half");
    drop(response);
    assert_eq!(timeout(SOON, remote).await.unwrap().unwrap(), 0, "closed");
}

async fn connection() -> (HttpConnection, DuplexStream) {
    let (near, remote) = duplex(64);
    let dialled = DialledStream {
        stream: Box::new(near),
        counters: None,
    };
    (HttpConnection::open(dialled).await.unwrap(), remote)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_uses_is_closed_after_a_while() {
    let pool = pool("http://127.0.0.1:1");
    let (early, mut early_remote) = connection().await;
    let (late, mut late_remote) = connection().await;
    let start = Instant::now();
    pool.keep(early, KEPT);
    sleep(KEPT / 2).await;
    pool.keep(late, KEPT);
    assert_eq!(early_remote.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(start.elapsed().as_secs(), KEPT.as_secs());
    assert!(pool.take().is_some_and(|mut late| late.is_ready(false)));
    assert_eq!(
        late_remote.read(&mut [0]).await.unwrap(),
        0,
        "it was taken out, and dropped"
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_its_server_closes_is_let_go_at_once_or_within_a_second_of_its_last_use() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let pool = pool("http://127.0.0.1:1");
    let before = tasks();
    let (at_once, mut at_once_remote) = connection().await;
    let (later, mut later_remote) = connection().await;
    let (other, mut other_remote) = connection().await;
    let start = Instant::now();
    pool.keep(at_once, KEPT);
    pool.keep(later, KEPT);
    at_once_remote.shutdown().await.unwrap();
    assert_eq!(at_once_remote.read(&mut [0]).await.unwrap(), 0, "closed here too");
    assert_eq!(start.elapsed().as_secs(), 1);

    sleep(KEPT / 4).await;
    pool.keep(other, KEPT);
    sleep(KEPT / 4).await;
    let closed = Instant::now();
    later_remote.shutdown().await.unwrap();
    assert_eq!(later_remote.read(&mut [0]).await.unwrap(), 0);
    other_remote.shutdown().await.unwrap();
    assert_eq!(other_remote.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(closed.elapsed(), Duration::ZERO, "both had been seen");
    while tasks() > before {
        tokio::task::yield_now().await;
    }
    assert_eq!(closed.elapsed(), Duration::ZERO, "nobody looks at an empty pool");
}

#[tokio::test]
async fn the_descriptor_of_a_connection_that_its_server_closes_is_closed() {
    let (listener, pool) = listening().await;
    let remote = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none").await;
        stream.shutdown().await.unwrap();
        // The other half ends when the last descriptor of it is closed.
        stream.read(&mut [0]).await.unwrap_or(0)
    });
    let one = pool.send(PoolRequest::default()).await.unwrap();
    assert_eq!(body(one).await, "one");
    assert_eq!(timeout(SOON, remote).await.unwrap().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_pool_that_is_gone() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let pool = pool("http://127.0.0.1:1");
    let before = tasks();
    let (kept, _remote) = connection().await;
    pool.keep(kept, KEPT);
    assert!(tasks() > before, "somebody sweeps");
    drop(pool);
    // No time passes: it ends with the pool, and not when it would have had something to sweep.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tasks(), before);
}

#[tokio::test]
async fn a_connection_to_nobody_is_told_from_one_that_broke() {
    let (listener, pool) = listening().await;
    let remote = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer(&mut stream, "").await;
    });
    let broken = pool.send(PoolRequest::default()).await.err().unwrap();
    assert!(matches!(broken, ExchangeError::Broken(_)), "{broken:?}");
    remote.await.unwrap();
    let nobody = pool.send(PoolRequest::default()).await.err().unwrap();
    assert!(matches!(nobody, ExchangeError::NotConnected(_)), "{nobody:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_used_any_more_when_its_time_is_over() {
    let pool = pool("http://127.0.0.1:1");
    let (short, _short_remote) = connection().await;
    let (long, _long_remote) = connection().await;
    let (never, mut never_far) = connection().await;
    pool.keep(long, KEPT);
    pool.keep(short, Duration::from_millis(500));
    pool.keep(never, Duration::ZERO);
    assert_eq!(never_far.read(&mut [0]).await.unwrap(), 0, "closed at once");
    // Before the sweeper has looked: it does so a second after the first one came.
    tokio::time::advance(Duration::from_millis(600)).await;
    assert_eq!(pool.idle.lock().connections.len(), 2);
    assert!(pool.take().is_some());
    assert!(pool.take().is_none(), "that was the long one");
}

/// The state that the system shows of the socket at this port of 127.0.0.1, as in `/proc/net/tcp`.
fn socket_state(port: u16) -> Option<String> {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let address = format!("0100007F:{port:04X}");
    sockets.lines().find_map(|socket| {
        let mut fields = socket.split_whitespace().skip(1);
        (fields.next()? == address).then(|| fields.nth(1).expect("its state").to_owned())
    })
}

/// The other side has closed its half.
const CLOSE_WAIT: &str = "08";

/// A server that answers one request and closes, in a thread, so that it needs nothing of this test's runtime. Returns the
/// port it was asked from.
fn answers_once(
    listener: std::net::TcpListener,
    closes: std::sync::mpsc::Receiver<()>,
) -> std::thread::JoinHandle<(std::net::TcpListener, u16)> {
    use std::io::{Read as _, Write as _};
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none")
            .unwrap();
        closes.recv().unwrap();
        let asked_from = stream.peer_addr().unwrap().port();
        drop(stream);
        (listener, asked_from)
    })
}

#[tokio::test]
async fn a_close_that_this_machine_has_received_is_seen_before_the_next_request_is_written() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let pool = pool(&format!("http://{}", listener.local_addr().unwrap()));
    let (close, closes) = std::sync::mpsc::channel();
    let remote = answers_once(listener, closes);
    let one = pool.send(PoolRequest::default()).await.unwrap();
    assert_eq!(body(one).await, "one");
    // The close comes while the thread of the runtime is busy: the runtime cannot have received of it.
    close.send(()).unwrap();
    let (listener, port) = remote.join().unwrap();
    let joined = std::time::Instant::now();
    assert!(poll::comes_true(SOON, || {
        joined.elapsed() > LOOK_AFTER && socket_state(port).as_deref() == Some(CLOSE_WAIT)
    }));
    let (close, closes) = std::sync::mpsc::channel();
    let remote = answers_once(listener, closes);
    let again = pool
        .send(PoolRequest::default())
        .await
        .expect("on another connection");
    assert_eq!(body(again).await, "one");
    close.send(()).unwrap();
    remote.join().unwrap();
}

#[tokio::test]
async fn a_request_of_which_the_system_took_no_byte_was_not_sent() {
    let (listener, pool) = listening().await;
    let (mut connection, stream) = tokio::join!(pool.connect(), listener.accept());
    let connection = connection.as_mut().unwrap();
    let (stream, address) = stream.unwrap();
    stream.set_zero_linger().unwrap();
    drop(stream);
    assert!(
        poll::comes_true(SOON, || socket_state(address.port()).is_none()),
        "it is reset"
    );
    let failed = connection.ask(PoolRequest::default()).await.err().unwrap();
    assert!(matches!(failed.error, ExchangeError::NotWritten(_)));
}

#[tokio::test]
async fn a_request_that_was_written_to_a_connection_that_is_then_closed_may_have_run() {
    let (listener, pool) = listening().await;
    let remote = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none").await;
        answer(&mut stream, "").await;
    });
    let one = pool.send(PoolRequest::default()).await.unwrap();
    assert_eq!(body(one).await, "one");
    let broken = pool.send(PoolRequest::default()).await.err().unwrap();
    assert!(matches!(broken, ExchangeError::Broken(_)), "{broken:?}");
    remote.await.unwrap();
}

#[test]
fn a_connection_is_kept_a_little_shorter_than_its_server_says_it_does() {
    let millis = Duration::from_millis;
    for (said, expected) in [
        (None, DEFAULT_KEEP_ALIVE),
        (Some("timeout=5"), millis(4000)),
        (Some("timeout=5, max=1000"), millis(4000)),
        (Some("max=100, Timeout = \"20\""), millis(19_000)),
        (Some("timeout=3600"), KEEP_ALIVE_LIMIT),
        (Some("timeout=2"), millis(1000)),
        (Some("timeout=1"), millis(500)),
        (Some("timeout=0"), Duration::ZERO),
        (Some("timeout=soon"), DEFAULT_KEEP_ALIVE),
        (Some("max=5"), DEFAULT_KEEP_ALIVE),
        (Some(""), DEFAULT_KEEP_ALIVE),
    ] {
        let headers = said.map(|said| (KEEP_ALIVE, said.parse().unwrap()));
        assert_eq!(keep_alive(&headers.into_iter().collect()), expected, "{said:?}");
    }
    for (said, expected) in [
        ("close", Duration::ZERO),
        ("Close", Duration::ZERO),
        ("keep-alive", millis(19_000)),
    ] {
        let headers = [(CONNECTION, said), (KEEP_ALIVE, "timeout=20")];
        let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
        assert_eq!(keep_alive(&headers.into_iter().collect()), expected, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_idle_connection_stays_open_until_the_server_closes_it_and_carries_no_request() {
    let pool = pool("http://127.0.0.1:1");
    let mut closes = pool.closes();
    let (older, _remote_of_older) = connection().await;
    let (newer, remote) = connection().await;
    pool.keep(older, KEPT);
    pool.keep(newer, KEPT);
    sleep(2 * KEPT).await;
    let idle = || {
        let idle = pool.idle.lock();
        (idle.connections.len(), idle.watched.is_some())
    };
    assert_eq!(idle(), (0, true), "one of them is watched");
    assert!(!closes.has_changed().unwrap());
    drop(remote);
    closes.changed().await.unwrap();
    assert_eq!(idle(), (0, false));

    let (again, mut remote) = connection().await;
    pool.keep(again, KEPT);
    sleep(2 * KEPT).await;
    assert_eq!(idle(), (0, true));
    assert!(pool.take().is_none());
    assert_eq!(
        remote.read(&mut [0]).await.unwrap(),
        0,
        "closed before the next one is made"
    );
}

#[tokio::test(start_paused = true)]
async fn the_close_of_an_idle_connection_before_its_time_is_reported_at_once() {
    let pool = pool("http://127.0.0.1:1");
    let mut closes = pool.closes();
    let (one, remote) = connection().await;
    pool.keep(one, KEPT);
    sleep(KEPT / 2).await;
    let before = Instant::now();
    drop(remote);
    closes.changed().await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
}
