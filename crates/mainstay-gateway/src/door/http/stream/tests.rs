use std::sync::Arc;
use std::task::Waker;

use super::*;
use crate::budget::{Budget, BudgetLimits, MESSAGE_COST};
use crate::principal::Principal;

fn account() -> Account {
    Arc::new(Budget::default()).account(Principal::session(1))
}

fn next(stream: &ClientStream, position: &mut ReadPosition) -> Poll<StreamItem> {
    stream.poll_next(position, &Context::from_waker(Waker::noop()))
}

fn event(number: u64, text: &'static str) -> Poll<StreamItem> {
    let line = Bytes::from_static(text.as_bytes());
    Poll::Ready(StreamItem::Event(number, line.into()))
}

fn put(stream: &ClientStream, text: &'static str) -> bool {
    stream.send(Bytes::from_static(text.as_bytes()))
}

#[test]
fn a_reader_gets_all_in_order_and_then_the_end() {
    let stream = ClientStream::resumable(3, account());
    assert!(put(&stream, "a"));
    let mut position = stream.open(None);
    assert_eq!(next(&stream, &mut position), event(1, "a"));
    assert_eq!(next(&stream, &mut position), Poll::Pending);
    put(&stream, "b");
    stream.close();
    assert!(!put(&stream, "c"), "nothing more comes");
    assert_eq!(next(&stream, &mut position), event(2, "b"));
    assert_eq!(next(&stream, &mut position), Poll::Ready(StreamItem::End));
}

#[test]
fn a_stream_is_resumed_after_any_event_and_read_by_the_latest_reader() {
    let stream = ClientStream::resumable(3, account());
    for text in ["a", "b", "c"] {
        put(&stream, text);
    }
    let mut first = stream.open(None);
    assert_eq!(first.next, 1);
    assert_eq!(next(&stream, &mut first), event(1, "a"));
    assert_eq!(next(&stream, &mut first), event(2, "b"));
    let (number, after) = ClientStream::parse_event_id(&stream.event_id(1)).unwrap();
    assert_eq!((number, after), (3, 1));
    let mut second = stream.open(Some(after));
    assert_eq!(
        next(&stream, &mut first),
        Poll::Ready(StreamItem::End),
        "another reader took over"
    );
    assert_eq!(next(&stream, &mut second), event(2, "b"));
    assert_eq!(next(&stream, &mut second), event(3, "c"));
}

#[test]
fn a_stream_is_read_while_its_client_is_connected() {
    let standing = ClientStream::standing(account());
    assert!(!standing.is_read(), "it is not open yet");
    let position = standing.open(None);
    assert!(standing.is_read());
    standing.leave(&position);
    assert!(!standing.is_read());
    standing.open(None);
    assert!(standing.is_read(), "the client is back");
    standing.close();
    assert!(!standing.is_read());
    let of_request = ClientStream::resumable(3, account());
    assert!(of_request.is_read(), "its client waits for the head");
}

#[test]
fn a_client_that_names_an_event_of_the_future_reads_what_comes() {
    let stream = ClientStream::resumable(1, account());
    put(&stream, "a");
    let mut position = stream.open(Some(u64::MAX));
    assert_eq!(next(&stream, &mut position), event(1, "a"));
    assert_eq!(ClientStream::parse_event_id("1"), None);
    assert_eq!(ClientStream::parse_event_id("a-b"), None);
}

#[test]
fn a_reader_that_falls_behind_what_is_kept_has_lost_the_stream() {
    let stream = ClientStream::resumable(1, account());
    let mut position = stream.open(None);
    for _ in 0..=EVENTS_LIMIT {
        put(&stream, "a");
    }
    assert_eq!(next(&stream, &mut position), Poll::Ready(StreamItem::Lost));
    let mut again = stream.open(Some(0));
    assert_eq!(next(&stream, &mut again), event(2, "a"), "from what is there");
}

#[test]
fn optional_messages_drop_no_other() {
    let stream = ClientStream::resumable(1, account());
    put(&stream, "a");
    let offered = (0..EVENTS_LIMIT).take_while(|_| stream.offer(Bytes::from_static(b"log")));
    assert_eq!(offered.count(), OPTIONAL_LIMIT.0 - 1);
    let mut position = stream.open(Some(0));
    assert!(put(&stream, "b"), "there is room for what counts");
    assert_eq!(next(&stream, &mut position), event(1, "a"));

    let stream = ClientStream::resumable(1, account());
    assert!(
        stream.offer(Bytes::from(vec![b'x'; OPTIONAL_LIMIT.1])),
        "one may be large"
    );
    assert!(!stream.offer(Bytes::from_static(b"log")));
    assert!(
        !ClientStream::standing(account()).offer(Bytes::from_static(b"log")),
        "no client reads"
    );
}

#[test]
fn a_log_is_bounded_in_bytes_but_keeps_the_latest() {
    let stream = ClientStream::resumable(1, account());
    let large = Bytes::from(vec![b'x'; BYTES_LIMIT + 1]);
    put(&stream, "a");
    stream.send(large.clone());
    stream.send(large.clone());
    let mut position = stream.open(Some(0));
    assert_eq!(
        next(&stream, &mut position),
        Poll::Ready(StreamItem::Event(3, large.into()))
    );
    assert!(stream.is_empty(), "too large to be kept once it is read");
}

#[test]
fn a_large_answer_does_not_cost_its_reader_what_came_before_it() {
    let stream = ClientStream::once(account());
    let mut position = stream.open(None);
    let large = Bytes::from(vec![b'x'; BYTES_LIMIT + 1]);
    assert!(stream.offer(Bytes::from_static(b"progress")));
    stream.send(large.clone());
    stream.close();
    assert_eq!(next(&stream, &mut position), event(1, "progress"));
    assert_eq!(
        next(&stream, &mut position),
        Poll::Ready(StreamItem::Event(2, large.into()))
    );
    assert_eq!(next(&stream, &mut position), Poll::Ready(StreamItem::End));
}

#[test]
fn a_stream_for_one_reading_forgets_what_is_read() {
    let stream = ClientStream::once(account());
    put(&stream, "a");
    let mut position = stream.open(None);
    assert_eq!(next(&stream, &mut position), event(1, "a"));
    assert!(stream.is_empty());
    assert!(!stream.is_resumable());
}

#[test]
fn a_standing_stream_takes_nothing_before_its_first_reader_and_keeps_what_was_missed() {
    let stream = ClientStream::standing(account());
    assert!(!put(&stream, "a"));
    let mut position = stream.open(None);
    assert!(put(&stream, "b"));
    assert_eq!(next(&stream, &mut position), event(1, "b"));
    assert!(put(&stream, "c"));
    let mut later = stream.open(None);
    assert_eq!(
        next(&stream, &mut later),
        event(2, "c"),
        "which no client has read"
    );
}

#[test]
fn unread_messages_in_all_streams_of_a_client_are_charged_to_it() {
    let budget = Arc::new(Budget::new(BudgetLimits {
        all: 10 + 6 * MESSAGE_COST,
        share: Some(4 + 2 * MESSAGE_COST),
    }));
    let account = budget.account(Principal::session(1));
    let (one, other) = (
        ClientStream::resumable(1, account.clone()),
        ClientStream::once(account),
    );
    assert!(put(&one, "abc") && put(&other, "d"));
    assert!(
        !put(&one, "e") && !other.offer(Bytes::from_static(b"e")),
        "its share"
    );
    let another = ClientStream::once(budget.account(Principal::session(2)));
    assert!(put(&another, "ab") && put(&another, "cd"), "of another client");
    let mut position = other.open(None);
    assert_eq!(next(&other, &mut position), event(1, "d"));
    assert!(put(&one, "e"), "read, and forgotten");
    drop((one, another));
    assert_eq!(budget.held(), 0);
}

#[test]
fn a_repeated_notification_is_queued_once_until_it_is_read() {
    let stream = ClientStream::resumable(1, account());
    let send = |text: &'static str| stream.send_once(Bytes::from_static(text.as_bytes()));
    let mut position = stream.open(None);
    for _ in 0..1000 {
        assert!(send("a changed") && send("b changed"));
    }
    assert_eq!(next(&stream, &mut position), event(1, "a changed"));
    assert!(send("a changed"), "it changed since that was read");
    assert!(send("b changed"));
    assert_eq!(next(&stream, &mut position), event(2, "b changed"));
    assert_eq!(next(&stream, &mut position), event(3, "a changed"));
    assert_eq!(next(&stream, &mut position), Poll::Pending);
}

#[tokio::test]
async fn a_small_message_is_charged_for_what_it_takes_beside_its_bytes() {
    let budget = Arc::new(Budget::default());
    let stream = ClientStream::resumable(1, budget.account(Principal::session(1)));
    for _ in 0..100 {
        assert!(stream.send(Bytes::from_static(b"{}")));
    }
    // An entry of the queue alone is as large as this.
    assert!(
        budget.held() >= 100 * (2 + size_of::<OutgoingMessage>()),
        "{}",
        budget.held()
    );
    drop(stream);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn only_short_messages_are_copied_into_their_events() {
    let budget = Arc::new(Budget::default());
    let stream = Arc::new(ClientStream::resumable(1, budget.account(Principal::session(1))));
    for (length, is_copied) in [(100, true), (4096, false)] {
        let message = Bytes::from("x".repeat(length));
        assert!(stream.send(message.clone()));
        let mut reader = EventReader::open(stream.clone(), None, Box::new(()));
        let mut pieces = Vec::new();
        while let Poll::Ready(Some(Ok(piece))) = reader.poll_piece(&mut Context::from_waker(Waker::noop())) {
            pieces.push(piece);
        }
        assert_eq!(pieces.len() == 1, is_copied, "{length}");
        assert_eq!(
            pieces.iter().any(|piece| piece.as_ptr() == message.as_ptr()),
            !is_copied
        );
    }
}
