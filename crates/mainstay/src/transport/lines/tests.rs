use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use mainstay_testkit::poll::LIMIT;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::Notify;

use super::*;
use crate::transport::SendFailure;
use crate::turn::tests::{TURNS_IN_A_ROW, most_in_between};

/// Notes what it is told.
#[derive(Default)]
struct Received {
    messages: Mutex<Vec<Bytes>>,
    ends: Mutex<Vec<End>>,
    ended: Notify,
}

impl Inbound for Received {
    fn message(&self, message: Bytes) {
        self.messages.lock().unwrap().push(message);
    }

    fn oversized(&self, _skipped: Oversized<'_>) {}

    fn failed(&self, _request: u64, _failure: SendFailure) {}

    fn retired(&self, _: End) {}

    fn ended(&self, end: End) {
        self.ends.lock().unwrap().push(end);
        self.ended.notify_one();
    }
}

/// Keeps each write apart, with the address it was made from.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<Write>>>);

struct Write {
    address: usize,
    bytes: Vec<u8>,
}

impl AsyncWrite for Writes {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().push(Write {
            address: bytes.as_ptr().addr(),
            bytes: bytes.to_vec(),
        });
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn frame(text: impl Into<Bytes>) -> Frame {
    Frame::new(text.into(), Purpose::Notification)
}

fn start<W>(writer: W) -> (Arc<dyn Outbound>, Arc<Received>, DuplexStream)
where
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (reader, remote) = duplex(1024);
    let lines = Box::new(Lines::new(reader, writer, Limits::default()));
    let outbound = lines.outbound();
    let received = Arc::new(Received::default());
    lines.start(received.clone());
    (outbound, received, remote)
}

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn small_frames_go_out_together_and_large_ones_without_a_copy() {
    let writes = Writes::default();
    let (outbound, _heard, _remote) = start(writes.clone());
    let large = Bytes::from(vec![b'x'; 100_000]);
    for bytes in ["a".into(), "b".into(), large.clone(), "c".into()] {
        outbound.try_send(frame(bytes)).unwrap();
    }
    settle().await;
    let writes = writes.0.lock().unwrap();
    assert_eq!(writes.len(), 3);
    assert_eq!(writes[0].bytes, b"a\nb\n");
    assert_eq!(writes[1].address, large.as_ptr().addr());
    assert_eq!(writes[2].bytes, b"\nc\n");
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_and_hands_back_what_it_cannot_take() {
    let (writer, _blocked) = duplex(1);
    let (outbound, _heard, _remote) = start(writer);
    outbound.try_send(frame("first")).unwrap();
    settle().await;
    for _ in 0..ORDERED_LANE {
        outbound.try_send(frame("more")).unwrap();
    }
    assert!(
        matches!(outbound.try_send(frame("last")), Err(NotQueued::Full(frame)) if *frame.bytes() == "last")
    );
    assert!(
        outbound
            .try_send(Frame::new(Bytes::new(), Purpose::Reply))
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_withdrawn_before_it_is_written_frees_its_bytes_and_its_place() {
    let (writer, mut remote) = duplex(1);
    let (outbound, _heard, _remote) = start(writer);
    outbound.try_send(frame("first")).unwrap();
    settle().await;
    let bytes = |id: u64| Bytes::from(format!("request {id}"));
    let withdrawn = bytes(1);
    for id in 0..u64::try_from(ORDERED_LANE).unwrap() {
        let bytes = if id == 1 { withdrawn.clone() } else { bytes(id) };
        outbound
            .try_send(Frame::new(bytes, Purpose::Request { id }))
            .unwrap();
    }
    assert!(outbound.try_send(frame("full")).is_err());
    outbound.withdraw(1);
    outbound.withdraw(1);
    assert!(withdrawn.is_unique(), "nothing keeps it");
    outbound.try_send(frame("last")).unwrap();
    assert!(outbound.try_send(frame("full")).is_err(), "one place was freed");

    let mut lines = BufReader::new(&mut remote).lines();
    for expected in ["first", "request 0", "request 2"] {
        assert_eq!(lines.next_line().await.unwrap().unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_transport_frees_what_waits_for_its_writer() {
    let (writer, _blocked) = duplex(1);
    let (outbound, _heard, _remote) = start(writer);
    outbound.try_send(frame("first")).unwrap();
    settle().await;
    let waiting = Bytes::from("waits".to_owned());
    let request = Frame::new(waiting.clone(), Purpose::Request { id: 1 });
    outbound.try_send(request.clone()).unwrap();
    drop(request);
    outbound.close();
    assert!(waiting.is_unique(), "nothing keeps it");
    assert!(matches!(outbound.try_send(frame("late")), Err(NotQueued::Closed)));
    assert!(matches!(
        outbound.send(frame("late")).await,
        Err(NotQueued::Closed)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_blocked_writer_does_not_keep_the_reader_from_hearing() {
    let (writer, _blocked) = duplex(1);
    let (outbound, received, mut remote) = start(writer);
    outbound.try_send(frame("blocks")).unwrap();
    remote.write_all(b"one\ntwo\nunfinished").await.unwrap();
    settle().await;
    assert_eq!(*received.messages.lock().unwrap(), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_words_of_a_remote_peer_that_no_longer_reads_are_heard() {
    let (writer, closed) = duplex(1024);
    let (outbound, received, mut remote) = start(writer);
    drop(closed);
    outbound.try_send(frame("into the void")).unwrap();
    settle().await;
    remote.write_all(b"last words\n").await.unwrap();
    received.ended.notified().await;
    assert_eq!(*received.messages.lock().unwrap(), ["last words"]);
    assert!(matches!(
        received.ends.lock().unwrap()[..],
        [End::Io {
            kind: io::ErrorKind::BrokenPipe,
            ..
        }]
    ));
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_once() {
    let (outbound, received, remote) = start(Writes::default());
    outbound.close();
    outbound.close();
    drop(remote);
    settle().await;
    assert_eq!(*received.ends.lock().unwrap(), [End::Closed]);
    assert!(matches!(outbound.try_send(frame("late")), Err(NotQueued::Closed)));
    assert!(matches!(
        outbound.send(frame("late")).await,
        Err(NotQueued::Closed)
    ));
}

#[tokio::test(start_paused = true)]
async fn what_is_closed_before_its_start_never_runs() {
    let (reader, _remote) = duplex(1024);
    let lines = Box::new(Lines::new(reader, Writes::default(), Limits::default()));
    lines.outbound().close();
    let received = Arc::new(Received::default());
    lines.start(received.clone());
    assert_eq!(*received.ends.lock().unwrap(), [End::Closed]);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[test]
fn a_transport_that_is_started_while_its_runtime_shuts_down_ends_and_holds_nobody_up() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let received = Arc::new(Received::default());
    let inbound = received.clone();
    let (returns, returned) = std::sync::mpsc::channel();
    let started = std::thread::spawn(move || {
        let _inside = handle.enter();
        let (near, _remote) = duplex(64);
        let (reader, writer) = tokio::io::split(near);
        Box::new(Lines::new(reader, writer, Limits::default())).start(inbound);
        returns.send(()).expect("awaited");
    });
    assert_eq!(returned.recv_timeout(LIMIT), Ok(()), "it never returns");
    started.join().unwrap();
    assert_eq!(*received.ends.lock().unwrap(), [End::Aborted]);
}

/// Always has something to read: so many times this text, then the end.
struct Endless {
    text: Vec<u8>,
    left: usize,
}

impl AsyncRead for Endless {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left > 0 && buffer.remaining() >= self.text.len() {
            buffer.put_slice(&self.text);
            self.left -= 1;
        }
        Poll::Ready(Ok(()))
    }
}

/// Counts messages.
#[derive(Default)]
struct Counted(Arc<AtomicU32>);

impl Inbound for Counted {
    fn message(&self, _message: Bytes) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn oversized(&self, _skipped: Oversized<'_>) {}

    fn failed(&self, _request: u64, _failure: SendFailure) {}

    fn retired(&self, _: End) {}

    fn ended(&self, _end: End) {}
}

#[tokio::test]
async fn a_remote_peer_that_never_stops_writing_leaves_everybody_their_turn() {
    let batch = b"[{\"a\":1},{\"a\":2},{\"a\":3},{\"a\":4},{\"a\":5},{\"a\":6},{\"a\":7},{\"a\":8}]\n";
    let long_batch = format!("[{}{{}}]\n", "{},".repeat(999)).into_bytes();
    for (text, messages, left) in [
        (b"{}\n".to_vec(), 1, 10_000),
        (batch.to_vec(), 8, 10_000),
        (long_batch, 1000, 20),
    ] {
        let reader = Endless { text, left };
        let lines = Lines::new(reader, Writes::default(), Limits::default());
        let inbound = Counted::default();
        let count = inbound.0.clone();
        let _outbound = lines.outbound();
        Box::new(lines).start(Arc::new(inbound));
        let most = most_in_between(count, u32::try_from(left).unwrap() * messages).await;
        assert!(most <= TURNS_IN_A_ROW * Turn::MESSAGES, "{most} messages at once");
    }
}

/// Gives empty lines, and counts its reads.
struct EmptyLines {
    reads: Arc<AtomicU32>,
    left: u32,
}

impl EmptyLines {
    const IN_A_READ: usize = 1024;
}

impl AsyncRead for EmptyLines {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left > 0 {
            self.left -= 1;
            self.reads.fetch_add(1, Ordering::Relaxed);
            buffer.put_slice(&[b'\n'; Self::IN_A_READ]);
        }
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn empty_lines_without_end_leave_everybody_their_turn() {
    let reads = Arc::new(AtomicU32::new(0));
    let reader = EmptyLines {
        reads: reads.clone(),
        left: 4_000,
    };
    let lines = Lines::new(reader, Writes::default(), Limits::default());
    let _outbound = lines.outbound();
    Box::new(lines).start(Arc::new(Counted::default()));
    let most = most_in_between(reads, 4_000).await;
    let lines = TURNS_IN_A_ROW * Turn::MESSAGES * split::EMPTY_AT_ONCE;
    let allowed = lines as usize / EmptyLines::IN_A_READ + 1;
    assert!(most as usize <= allowed, "{most} reads at once");
}

/// Takes all bytes, and counts the lines.
#[derive(Default)]
struct CountedLines(Arc<AtomicU32>);

impl AsyncWrite for CountedLines {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.0.fetch_add(u32::try_from(lines).unwrap(), Ordering::Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_full_lane_leaves_everybody_their_turn_while_it_is_written() {
    let (urgent_in, urgent) = mpsc::channel(URGENT_LANE);
    for _ in 0..URGENT_LANE {
        urgent_in.try_send(frame("{}")).unwrap();
    }
    let ordered = Lane::new(1);
    let writer = CountedLines::default();
    let count = writer.0.clone();
    // The runtime's own budget would count what is taken from the lanes, and not what is written.
    tokio::spawn(tokio::task::unconstrained(async move {
        write::run(writer, &ordered, urgent).await
    }));
    let most = most_in_between(count, u32::try_from(URGENT_LANE).unwrap()).await;
    assert!(most <= TURNS_IN_A_ROW * Turn::MESSAGES, "{most} frames at once");
}

#[tokio::test]
async fn a_large_message_is_handed_over_in_its_order_on_another_thread() {
    struct Where(Mutex<Vec<(usize, bool)>>, std::thread::ThreadId);
    impl Inbound for Where {
        fn message(&self, message: Bytes) {
            let is_here = std::thread::current().id() == self.1;
            self.0.lock().unwrap().push((message.len(), is_here));
        }
        fn oversized(&self, _skipped: Oversized<'_>) {}
        fn failed(&self, _request: u64, _failure: SendFailure) {}
        fn retired(&self, _: End) {}

        fn ended(&self, _end: End) {}
    }
    let large = format!("\"{}\"", "x".repeat(large::INLINE_LIMIT));
    let text = format!("1\n{large}\n2\n{large}");
    let lines = Lines::new(io::Cursor::new(text), Writes::default(), Limits::default());
    let received = Arc::new(Where(Mutex::default(), std::thread::current().id()));
    let _outbound = lines.outbound();
    Box::new(lines).start(received.clone());
    while received.0.lock().unwrap().len() < 4 {
        tokio::task::yield_now().await;
    }
    let large = (large.len(), false);
    assert_eq!(*received.0.lock().unwrap(), [(1, true), large, (1, true), large]);
}
