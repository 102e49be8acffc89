//! How connections end, and what that does to the requests that wait.

use tokio::runtime::Handle as Runtime;

use super::remote_peer::{poll_once, settle};
use super::*;

#[track_caller]
fn check_lost(answer: Result<RawJson, RequestError>, expected: Outcome, because: &End) {
    match answer {
        Err(RequestError::Lost { outcome, end }) => assert_eq!((outcome, &end), (expected, because)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_fails_what_waits_at_once() {
    let (peer, mut remote, _log) = connect();
    let began = Instant::now();
    let (first, second, end, ()) = tokio::join!(
        peer.request("a", None, within(60)),
        peer.request("b", None, within(60)),
        peer.closed(),
        async {
            remote.read().await;
            remote.read().await;
            drop(remote);
        }
    );
    check_lost(first, Outcome::Unknown, &End::EndOfStream);
    check_lost(second, Outcome::Unknown, &End::EndOfStream);
    assert_eq!(end, End::EndOfStream);
    assert_eq!(began.elapsed(), Duration::ZERO);
    check_lost(
        peer.request("c", None, within(60)).await,
        Outcome::NotSent,
        &End::EndOfStream,
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_behind_a_blocked_writer_was_not_sent() {
    let (peer, remote, _log) = connect_with(Limits::default(), 16);
    let began = Instant::now();
    let (first, second, ()) = tokio::join!(
        peer.request("first", None, within(60)),
        async {
            settle().await;
            peer.request("second", None, within(60)).await
        },
        async {
            settle().await;
            settle().await;
            assert_eq!(peer.stats().in_flight, 2);
            drop(remote);
        }
    );
    check_lost(first, Outcome::Unknown, &End::EndOfStream);
    check_lost(second, Outcome::NotSent, &End::EndOfStream);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn closing_is_immediate_though_the_writer_is_blocked() {
    let (peer, mut remote, _log) = connect_with(Limits::default(), 16);
    let before = Instant::now();
    // One is being written, some are queued, some wait for room.
    let mut requests: Vec<_> = (0..100)
        .map(|_| Box::pin(peer.request("a", None, within(60))))
        .collect();
    for request in &mut requests {
        poll_once(request.as_mut()).await;
        tokio::task::yield_now().await;
    }
    peer.close();
    peer.close();
    let mut outcomes = Vec::new();
    for request in requests {
        outcomes.push(request.await.unwrap_err().outcome());
    }
    assert_eq!(outcomes[0], Outcome::Unknown);
    assert!(outcomes[1..].iter().all(|outcome| *outcome == Outcome::NotSent));
    assert_eq!(peer.closed().await, End::Closed);
    assert_eq!(before.elapsed(), Duration::ZERO);

    check_lost(
        peer.request("b", None, within(60)).await,
        Outcome::NotSent,
        &End::Closed,
    );
    let told = peer
        .notify("n", None, Instant::now() + Duration::from_secs(1))
        .await;
    assert_eq!(told.unwrap_err().outcome(), Outcome::NotSent);
    remote.settle().await;
    assert_eq!(Runtime::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_remote_peer_sees_the_end_of_its_input_on_close() {
    let (peer, remote, _log) = connect();
    peer.close();
    remote.reads_the_end().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes_the_connection() {
    let (peer, remote, log) = connect();
    let clone = peer.clone();
    drop(peer);
    settle().await;
    assert_eq!(Runtime::current().metrics().num_alive_tasks(), 2);
    drop(clone);
    remote.reads_the_end().await;
    settle().await;
    assert_eq!(Runtime::current().metrics().num_alive_tasks(), 0);
    assert_eq!(Arc::strong_count(&log), 1, "the handler is let go");
}

#[tokio::test(start_paused = true)]
async fn many_may_wait_for_the_end() {
    let (peer, remote, _log) = connect();
    {
        let mut dropped = Box::pin(peer.closed());
        poll_once(dropped.as_mut()).await;
    }
    let ends = tokio::join!(peer.closed(), peer.closed(), async { drop(remote) });
    assert_eq!((ends.0, ends.1), (End::EndOfStream, End::EndOfStream));
    assert_eq!(peer.closed().await, End::EndOfStream);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_ends_the_connection_and_hangs_nobody() {
    let (peer, mut remote, _log) = connect();
    let (answer, ()) = tokio::join!(peer.request("a", None, within(60)), async {
        remote.read().await;
        remote.write(r#"{"method":"panic"}"#).await;
    });
    check_lost(answer, Outcome::Unknown, &End::Aborted);
}

#[tokio::test(start_paused = true)]
async fn after_the_end_no_notification_counts_as_sent_and_no_large_message_is_handed_on() {
    let (transport, inbound) = remote_peer::Unconnected::new();
    let log = Arc::new(Log::default());
    let peer = Peer::start(Box::new(transport), log.clone(), ConnectionRecorder::default());
    let inbound = inbound.get().unwrap();
    let large = format!(r#"{{"method":"large"{}}}"#, " ".repeat(INLINE_LIMIT));
    inbound.message(large.clone().into());
    assert_eq!(log.take(), ["large"]);
    let until = Instant::now() + Duration::from_secs(10);
    peer.notify("n", None, until).await.expect("there is room");

    inbound.ended(End::EndOfStream);
    inbound.message(large.into());
    assert_eq!(log.take(), [] as [&str; 0], "it was read too late");
    // This transport takes every frame, also after its end.
    let refused = peer.notify("n", None, until).await;
    assert_eq!(refused.unwrap_err().outcome(), Outcome::NotSent);
}
