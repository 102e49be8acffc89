//! The event stream: it resumes, it says what is missing, and a slow reader delays no other.

use std::ops::Range;

use mainstay_control::api::{
    Actor, ActorKind, DesiredState, EventDetail, EventMessage, LagReason, StateName,
};
use mainstay_control::{Control, ControlClient, ControlError, EventStream, Role};
use mainstay_testkit::Script;
use mainstay_testkit::fleet::{LONG, Memory};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use crate::support::{World, next, record, record_with};

#[tokio::test]
async fn a_stream_resumes_after_the_last_event_and_sees_each_once() {
    let world = World::one().await;
    let mut first = world.client.events(None, 100).await.expect("a stream");
    let born = record(&mut first).await;
    assert_eq!(
        born.sequence, 1,
        "the events since the start of the fleet are recorded"
    );
    record_with(&mut first, |detail| {
        matches!(detail, EventDetail::Transition { .. })
    })
    .await;
    let last = first.last_id().expect("an event was read").to_owned();
    drop(first);
    world.client.restart("one").await.expect("restarted");
    let mut second = world.client.events_after(None, &last).await.expect("a stream");
    let (_, number) = last.split_once('.').expect("an instance and a number");
    let number: u64 = number.parse().expect("a number");
    assert_eq!(record(&mut second).await.sequence, number + 1);
    assert_eq!(record(&mut second).await.sequence, number + 2);
    let page = world.client.last_events(Some("one"), 2).await.expect("a page");
    assert_eq!(page.events.len(), 2);
    assert!(
        page.events
            .iter()
            .all(|event| event.server.as_deref() == Some("one"))
    );
    assert_eq!(page.lost, Some(0));
}

#[tokio::test]
async fn the_id_that_a_browser_sends_counts_more_than_the_one_in_the_address() {
    let world = World::one().await;
    let page = world.client.last_events(None, 100).await.expect("a page");
    let (instance, seen) = (page.instance, page.last - 1);
    let request = format!(
        "GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nLast-Event-ID: {instance}.{seen}\r\n\r\n"
    );
    let (status, page) = world.raw(&request).await;
    assert_eq!((status, &page["lost"]), (200, &0.into()));
    assert_eq!(page["events"][0]["sequence"], seen + 1);
}

#[tokio::test]
async fn a_page_says_how_many_events_before_it_are_no_longer_kept() {
    let memory = Memory::new(Script::new());
    let config = memory.config("one").build().expect("valid");
    let world = World::with(Control::builder(Role::Serve).keep_events(1), [config]);
    let mut events = world.client.events_after(None, "0").await.expect("a stream");
    loop {
        match next(&mut events).await {
            EventMessage::Event(record) if record.sequence > 1 => break,
            EventMessage::Event(_) | EventMessage::Lagged(_) => {}
        }
    }
    let request = "GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (status, page) = world.raw(request).await;
    assert_eq!(status, 200);
    let kept = page["events"].as_array().expect("events");
    assert_eq!(kept.len(), 1, "{page}");
    let before = kept[0]["sequence"].as_u64().expect("a number") - 1;
    assert_eq!(page["lost"], before);
}

#[tokio::test]
async fn an_event_without_end_is_not_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("control.sock");
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: record\ndata: ";
        stream.write_all(head).await.expect("written");
        let piece = vec![b'x'; 64 * 1024];
        // More than the longest event, and an end, so that a client that keeps all of it does not wait.
        for _ in 0..5 * 16 {
            if stream.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
    let client = ControlClient::unix(&socket).timeout(LONG);
    let mut events = client.events(None, 0).await.expect("a stream");
    let refused = timeout(LONG, events.next()).await.expect("in time");
    let refused = refused.expect("said").expect_err("too long");
    assert!(
        matches!(&refused, ControlError::BadAnswer(what) if what.contains("longer than")),
        "{refused}"
    );
    assert!(events.next().await.is_none(), "the stream is given up");
}

#[tokio::test]
async fn a_reader_of_another_run_gets_everything_and_learns_that_the_program_was_restarted() {
    let world = World::one().await;
    for id in ["00000000.3", "99999"] {
        let mut events = world.client.events_after(None, id).await.expect("a stream");
        let EventMessage::Lagged(marker) = next(&mut events).await else {
            panic!("a marker comes first");
        };
        assert_eq!((marker.reason, marker.lost), (LagReason::Restarted, None));
        assert_eq!(record(&mut events).await.sequence, 1);
    }
    let refused = world
        .client
        .events_after(None, "nonsense")
        .await
        .err()
        .expect("no number");
    assert_eq!(refused.problem().map(|problem| problem.status), Some(400));
}

/// Reads until the event with this number was read or is known to be missing; returns how many were read and missed.
async fn count(mut events: EventStream, last: u64) -> (u64, u64) {
    let (mut read, mut lost, mut before) = (0, 0, 0);
    while read + lost < last {
        match next(&mut events).await {
            EventMessage::Event(record) => {
                read += 1;
                assert_eq!(record.sequence, read + lost, "no gap without a marker");
                assert!(record.sequence > before);
                before = record.sequence;
            }
            EventMessage::Lagged(marker) => lost += marker.lost.expect("a number"),
        }
    }
    (read, lost)
}

/// Each of ten readers gets every event; one that reads nothing until the end learns how many it missed, and delays none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_readers_miss_nothing_without_a_marker_while_one_does_not_read() {
    const SERVERS: usize = 50;
    const ROUNDS: usize = 10;
    const KEPT: usize = 512;
    // The one more is switched after all others.
    let memories: Vec<_> = (0..=SERVERS).map(|_| Memory::new(Script::new())).collect();
    let configs = memories.iter().enumerate().map(|(number, memory)| {
        let server = memory.config(&format!("s{number}")).enabled(false);
        server.build().expect("valid")
    });
    let world = World::with(Control::builder(Role::Serve).keep_events(KEPT), configs);
    // It asks for the stream, and does not read the answer before all is over.
    let mut slow = UnixStream::connect(&world.socket).await.expect("a connection");
    let request =
        b"GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
    slow.write_all(request).await.expect("written");
    let mut readers = Vec::new();
    for _ in 0..10 {
        readers.push(world.client.events_after(None, "0").await.expect("a stream"));
    }
    let began = Instant::now();
    let switch_all = async |numbers: Range<usize>| {
        for number in numbers {
            let (name, by) = (format!("s{number}"), Actor::via(ActorKind::Api));
            let enabled = world
                .control
                .set_desired(&name, DesiredState::Enabled, by.clone());
            enabled.await.expect("enabled");
            let disabled = world.control.set_desired(&name, DesiredState::Disabled, by);
            disabled.await.expect("disabled");
        }
    };
    let all_are_disabled = async || {
        for server in world.gateway.fleet().servers() {
            server
                .wait_until(LONG, |status| status.state == mainstay::StateKind::Disabled)
                .await
                .expect("disabled");
        }
    };
    for _ in 0..ROUNDS {
        switch_all(0..SERVERS).await;
    }
    all_are_disabled().await;
    // The recorder writes transitions in their order, a moment after they happened: these are the last ones.
    let mut latest = world
        .client
        .events(Some(&format!("s{SERVERS}")), 0)
        .await
        .expect("a stream");
    switch_all(SERVERS..SERVERS + 1).await;
    all_are_disabled().await;
    let is_last = |detail: &EventDetail| {
        matches!(
            detail,
            EventDetail::Transition {
                to: StateName::Disabled,
                ..
            }
        )
    };
    record_with(&mut latest, is_last).await;
    let last = world.control.program().last_event;
    let took = began.elapsed();
    assert!(
        last as usize > 2 * KEPT,
        "{last} events are too few to make a reader lag"
    );
    for reader in readers {
        let (read, lost) = timeout(LONG, count(reader, last)).await.expect("all is read");
        assert_eq!(read + lost, last);
    }
    println!("{last} events to ten readers in {took:?}");
    // The slow reader: what its socket took in, one marker, and the events that are kept.
    let mut late = world.client.events_after(None, "0").await.expect("a stream");
    let EventMessage::Lagged(marker) = next(&mut late).await else {
        panic!("it missed the first ones");
    };
    assert_eq!(marker.lost, Some(last - KEPT as u64));
    assert_eq!(record(&mut late).await.sequence, last - KEPT as u64 + 1);
    assert_eq!(slow_numbers(slow, last).await, last);
}

/// Reads a stream by hand to the event with this number; returns how many events and missing ones it has.
async fn slow_numbers(mut stream: UnixStream, last: u64) -> u64 {
    use tokio::io::AsyncReadExt;
    let mut text = String::new();
    let end = format!(".{last}\nevent: record");
    let mut buffer = vec![0; 64 * 1024];
    while !text.contains(&end) {
        let read = timeout(LONG, stream.read(&mut buffer))
            .await
            .expect("more in time");
        let read = read.expect("readable");
        assert!(read > 0, "the stream ended");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    let lost = text.split("event: lagged\ndata: {\"lost\":").skip(1).map(|rest| {
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        number.parse::<u64>().expect("a number")
    });
    let lost: u64 = lost.sum();
    assert!(lost > 0, "it did not read, and must have missed some");
    text.matches("event: record").count() as u64 + lost
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_shows_that_it_is_alive() {
    use tokio::io::AsyncReadExt;
    let world = World::one().await;
    let (mut near, remote) = tokio::io::duplex(64 * 1024);
    let service = world.service.clone();
    tokio::spawn(async move { service.serve_connection(remote).await });
    let request = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
    near.write_all(request).await.expect("written");
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while text.matches(":\n\n").count() < 3 {
        let read = near.read(&mut buffer).await.expect("readable");
        assert!(read > 0);
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    assert!(
        text.contains("text/event-stream") && text.contains("retry: 1000"),
        "{text}"
    );
}
