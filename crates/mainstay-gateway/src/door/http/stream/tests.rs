use std::task::Waker;

use super::*;

fn taken(stream: &Stream, place: &mut Place) -> Poll<Taken> {
    stream.poll_take(place, &Context::from_waker(Waker::noop()))
}

fn event(number: u64, text: &'static str) -> Poll<Taken> {
    Poll::Ready(Taken::Event(number, Bytes::from_static(text.as_bytes())))
}

fn put(stream: &Stream, text: &'static str) -> bool {
    stream.send(Bytes::from_static(text.as_bytes()))
}

#[test]
fn a_reader_gets_all_in_order_and_then_the_end() {
    let stream = Stream::kept(3);
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
    let stream = Stream::kept(3);
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
    let stream = Stream::kept(1);
    put(&stream, "a");
    let mut place = stream.open(Some(u64::MAX));
    assert_eq!(taken(&stream, &mut place), event(1, "a"));
    assert_eq!(Stream::named("1"), None);
    assert_eq!(Stream::named("a-b"), None);
}

#[test]
fn a_reader_that_falls_behind_what_is_kept_has_lost_the_stream() {
    let stream = Stream::kept(1);
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
    let stream = Stream::kept(1);
    put(&stream, "a");
    let offered = (0..MAX_EVENTS).take_while(|_| stream.offer(Bytes::from_static(b"log")));
    assert_eq!(offered.count(), SPARE.0 - 1);
    let mut place = stream.open(Some(0));
    assert!(put(&stream, "b"), "there is room for what counts");
    assert_eq!(taken(&stream, &mut place), event(1, "a"));

    let stream = Stream::kept(1);
    assert!(stream.offer(Bytes::from(vec![b'x'; SPARE.1])), "one may be large");
    assert!(!stream.offer(Bytes::from_static(b"log")));
    assert!(
        !Stream::standing().offer(Bytes::from_static(b"log")),
        "nobody reads"
    );
}

#[test]
fn a_log_is_bounded_in_bytes_but_keeps_the_latest() {
    let stream = Stream::kept(1);
    let large = Bytes::from(vec![b'x'; MAX_BYTES + 1]);
    put(&stream, "a");
    stream.send(large.clone());
    stream.send(large.clone());
    let mut place = stream.open(Some(0));
    assert_eq!(taken(&stream, &mut place), Poll::Ready(Taken::Event(3, large)));
    assert!(stream.is_empty(), "too large to be kept once it is read");
}

#[test]
fn a_large_answer_does_not_cost_its_reader_what_came_before_it() {
    let stream = Stream::passing();
    let mut place = stream.open(None);
    let large = Bytes::from(vec![b'x'; MAX_BYTES + 1]);
    assert!(stream.offer(Bytes::from_static(b"progress")));
    stream.send(large.clone());
    stream.close();
    assert_eq!(taken(&stream, &mut place), event(1, "progress"));
    assert_eq!(taken(&stream, &mut place), Poll::Ready(Taken::Event(2, large)));
    assert_eq!(taken(&stream, &mut place), Poll::Ready(Taken::End));
}

#[test]
fn a_passing_stream_forgets_what_is_read() {
    let stream = Stream::passing();
    put(&stream, "a");
    let mut place = stream.open(None);
    assert_eq!(taken(&stream, &mut place), event(1, "a"));
    assert!(stream.is_empty());
    assert!(!stream.resumes());
}

#[test]
fn a_standing_stream_takes_nothing_before_somebody_reads_and_keeps_what_is_missed() {
    let stream = Stream::standing();
    assert!(!put(&stream, "a"));
    let mut place = stream.open(None);
    assert!(put(&stream, "b"));
    assert_eq!(taken(&stream, &mut place), event(1, "b"));
    assert!(put(&stream, "c"));
    let mut later = stream.open(None);
    assert_eq!(taken(&stream, &mut later), event(2, "c"), "which nobody has read");
}
