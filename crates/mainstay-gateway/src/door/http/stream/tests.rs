use std::sync::Arc;
use std::task::Waker;

use super::*;
use crate::budget::{Budget, Limits};
use crate::principal::Principal;

fn account() -> Account {
    Arc::new(Budget::default()).account(Principal::session(1))
}

fn taken(stream: &Stream, place: &mut Place) -> Poll<Taken> {
    stream.poll_take(place, &Context::from_waker(Waker::noop()))
}

fn event(number: u64, text: &'static str) -> Poll<Taken> {
    let line = Bytes::from_static(text.as_bytes());
    Poll::Ready(Taken::Event(number, line.into()))
}

fn put(stream: &Stream, text: &'static str) -> bool {
    stream.send(Bytes::from_static(text.as_bytes()))
}

#[test]
fn a_reader_gets_all_in_order_and_then_the_end() {
    let stream = Stream::kept(3, account());
    assert!(put(&stream, "a"));
    let mut place = stream.open(None);
    assert_eq!(taken(&stream, &mut place), event(1, "a"));
    assert_eq!(taken(&stream, &mut place), Poll::Pending);
    put(&stream, "b");
    stream.close();
    assert!(!put(&stream, "c"), "nothing more comes");
    assert_eq!(taken(&stream, &mut place), event(2, "b"));
    assert_eq!(taken(&stream, &mut place), Poll::Ready(Taken::End));
}

#[test]
fn a_kept_stream_is_taken_up_after_any_event_and_read_by_the_latest() {
    let stream = Stream::kept(3, account());
    for text in ["a", "b", "c"] {
        put(&stream, text);
    }
    let mut first = stream.open(None);
    assert_eq!(first.after(), 0);
    assert_eq!(taken(&stream, &mut first), event(1, "a"));
    assert_eq!(taken(&stream, &mut first), event(2, "b"));
    let (number, after) = Stream::named(&stream.name(1)).unwrap();
    assert_eq!((number, after), (3, 1));
    let mut second = stream.open(Some(after));
    assert_eq!(taken(&stream, &mut first), Poll::Ready(Taken::End), "taken over");
    assert_eq!(taken(&stream, &mut second), event(2, "b"));
    assert_eq!(taken(&stream, &mut second), event(3, "c"));
}

#[test]
fn whoever_says_to_have_read_what_never_was_reads_what_comes() {
    let stream = Stream::kept(1, account());
    put(&stream, "a");
    let mut place = stream.open(Some(u64::MAX));
    assert_eq!(taken(&stream, &mut place), event(1, "a"));
    assert_eq!(Stream::named("1"), None);
    assert_eq!(Stream::named("a-b"), None);
}

#[test]
fn a_reader_that_falls_behind_what_is_kept_has_lost_the_stream() {
    let stream = Stream::kept(1, account());
    let mut place = stream.open(None);
    for _ in 0..=MAX_EVENTS {
        put(&stream, "a");
    }
    assert_eq!(taken(&stream, &mut place), Poll::Ready(Taken::Lost));
    let mut again = stream.open(Some(0));
    assert_eq!(taken(&stream, &mut again), event(2, "a"), "from what is there");
}

#[test]
fn what_can_be_missed_drives_nothing_out() {
    let stream = Stream::kept(1, account());
    put(&stream, "a");
    let offered = (0..MAX_EVENTS).take_while(|_| stream.offer(Bytes::from_static(b"log")));
    assert_eq!(offered.count(), SPARE.0 - 1);
    let mut place = stream.open(Some(0));
    assert!(put(&stream, "b"), "there is room for what counts");
    assert_eq!(taken(&stream, &mut place), event(1, "a"));

    let stream = Stream::kept(1, account());
    assert!(stream.offer(Bytes::from(vec![b'x'; SPARE.1])), "one may be large");
    assert!(!stream.offer(Bytes::from_static(b"log")));
    assert!(
        !Stream::standing(account()).offer(Bytes::from_static(b"log")),
        "nobody reads"
    );
}

#[test]
fn a_log_is_bounded_in_bytes_but_keeps_the_latest() {
    let stream = Stream::kept(1, account());
    let large = Bytes::from(vec![b'x'; MAX_BYTES + 1]);
    put(&stream, "a");
    stream.send(large.clone());
    stream.send(large.clone());
    let mut place = stream.open(Some(0));
    assert_eq!(
        taken(&stream, &mut place),
        Poll::Ready(Taken::Event(3, large.into()))
    );
    assert!(stream.is_empty(), "too large to be kept once it is read");
}

#[test]
fn a_large_answer_does_not_cost_its_reader_what_came_before_it() {
    let stream = Stream::passing(account());
    let mut place = stream.open(None);
    let large = Bytes::from(vec![b'x'; MAX_BYTES + 1]);
    assert!(stream.offer(Bytes::from_static(b"progress")));
    stream.send(large.clone());
    stream.close();
    assert_eq!(taken(&stream, &mut place), event(1, "progress"));
    assert_eq!(
        taken(&stream, &mut place),
        Poll::Ready(Taken::Event(2, large.into()))
    );
    assert_eq!(taken(&stream, &mut place), Poll::Ready(Taken::End));
}

#[test]
fn a_passing_stream_forgets_what_is_read() {
    let stream = Stream::passing(account());
    put(&stream, "a");
    let mut place = stream.open(None);
    assert_eq!(taken(&stream, &mut place), event(1, "a"));
    assert!(stream.is_empty());
    assert!(!stream.resumes());
}

#[test]
fn a_standing_stream_takes_nothing_before_somebody_reads_and_keeps_what_is_missed() {
    let stream = Stream::standing(account());
    assert!(!put(&stream, "a"));
    let mut place = stream.open(None);
    assert!(put(&stream, "b"));
    assert_eq!(taken(&stream, &mut place), event(1, "b"));
    assert!(put(&stream, "c"));
    let mut later = stream.open(None);
    assert_eq!(taken(&stream, &mut later), event(2, "c"), "which nobody has read");
}

#[test]
fn what_waits_in_all_streams_of_a_client_is_held_for_it_until_it_is_read() {
    let budget = Arc::new(Budget::new(Limits {
        all: 10,
        share: Some(4),
    }));
    let account = budget.account(Principal::session(1));
    let (one, other) = (Stream::kept(1, account.clone()), Stream::passing(account));
    assert!(put(&one, "abc") && put(&other, "d"));
    assert!(
        !put(&one, "e") && !other.offer(Bytes::from_static(b"e")),
        "its share"
    );
    let another = Stream::passing(budget.account(Principal::session(2)));
    assert!(put(&another, "abcd"), "of another client");
    let mut place = other.open(None);
    assert_eq!(taken(&other, &mut place), event(1, "d"));
    assert!(put(&one, "e"), "read, and forgotten");
    drop((one, another));
    assert_eq!(budget.held(), 0);
}

#[test]
fn the_same_news_wait_once_for_a_reader_that_is_behind_and_come_again_after_it_has_read_them() {
    let stream = Stream::kept(1, account());
    let tell = |text: &'static str| stream.send_once(Bytes::from_static(text.as_bytes()));
    let mut place = stream.open(None);
    for _ in 0..1000 {
        assert!(tell("a changed") && tell("b changed"));
    }
    assert_eq!(taken(&stream, &mut place), event(1, "a changed"));
    assert!(tell("a changed"), "it changed since that was read");
    assert!(tell("b changed"));
    assert_eq!(taken(&stream, &mut place), event(2, "b changed"));
    assert_eq!(taken(&stream, &mut place), event(3, "a changed"));
    assert_eq!(taken(&stream, &mut place), Poll::Pending);
}
