//! Deadlines, cancellation and dropped futures.

use super::remote_peer::poll_once;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_at_the_remote_peer_keeps_the_connection_and_drops_the_late_answer() {
    let (peer, mut remote, _log) = connect();
    let began = Instant::now();
    let failure = peer.request("slow", None, within(5)).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert!(matches!(
        failure,
        RequestError::TimedOut {
            kind: TimeoutKind::Total,
            sent: true
        }
    ));
    assert_eq!(failure.outcome(), Outcome::Unknown);

    remote.read().await;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"timed out"}}"#;
    assert_eq!(remote.read().await, cancelled);
    remote.answer(1, "\"late\"").await;
    let (answer, ()) = tokio::join!(
        peer.request("next", None, within(5)),
        remote.answer(2, "\"in time\"")
    );
    assert_eq!(answer.unwrap().as_str(), "\"in time\"");
    assert_eq!(peer.stats().late_answers, 1);
}

#[tokio::test(start_paused = true)]
async fn silence_runs_into_the_idle_timeout() {
    let (peer, _remote, _log) = connect();
    let began = Instant::now();
    let options = within(60).idle(Duration::from_secs(5));
    let failure = peer.request("slow", None, options).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert!(matches!(
        failure,
        RequestError::TimedOut {
            kind: TimeoutKind::Idle,
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_idle_timeout_and_never_the_total() {
    let (peer, mut remote, _log) = connect();
    let (sink, received) = collect();
    let began = Instant::now();
    let options = within(18).idle(Duration::from_secs(5)).progress(sink);
    let (answer, ()) = tokio::join!(peer.request("slow", None, options), async {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_secs(4)).await;
            remote.progress("1", "").await;
        }
    });
    assert!(matches!(
        answer,
        Err(RequestError::TimedOut {
            kind: TimeoutKind::Total,
            ..
        })
    ));
    assert_eq!(received.take().len(), 4, "progress at 4, 8, 12 and 16 seconds");
    assert_eq!(
        began.elapsed(),
        Duration::from_secs(24),
        "the remote peer went on"
    );
    remote.settle().await;
    assert_eq!(peer.stats().unknown_progress, 2);
}

#[tokio::test(start_paused = true)]
async fn progress_that_stops_runs_into_the_idle_timeout() {
    let (peer, mut remote, _log) = connect();
    let (sink, _heard) = collect();
    let began = Instant::now();
    let options = within(60).idle(Duration::from_secs(5)).progress(sink);
    let request = async {
        let answer = peer.request("slow", None, options).await;
        (answer, began.elapsed())
    };
    let ((answer, took), ()) = tokio::join!(request, async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        remote.progress("1", "").await;
    });
    assert!(matches!(
        answer,
        Err(RequestError::TimedOut {
            kind: TimeoutKind::Idle,
            ..
        })
    ));
    assert_eq!(took, Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_time_is_up_is_never_sent() {
    let (peer, mut remote, _log) = connect();
    let failure = peer
        .request("a", None, RequestOptions::until(Instant::now()))
        .await
        .unwrap_err();
    assert_eq!(failure.outcome(), Outcome::NotSent);
    remote.reads_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_a_request_cancels_it() {
    let (peer, mut remote, _log) = connect();
    let mut request = Box::pin(peer.request("a", None, within(10)));
    poll_once(request.as_mut()).await;
    remote.read().await;
    drop(request);
    assert!(
        remote
            .read()
            .await
            .contains(r#""method":"notifications/cancelled","params":{"requestId":1,"#)
    );
    assert_eq!(peer.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_that_are_dropped_at_once_are_all_cancelled() {
    let (peer, mut remote, _log) = connect();
    let mut requests: Vec<_> = (0..1000)
        .map(|_| Box::pin(peer.request("a", None, within(10))))
        .collect();
    for request in &mut requests {
        poll_once(request.as_mut()).await;
        remote.read().await;
    }
    assert_eq!(peer.stats().in_flight, 1000);
    drop(requests);
    assert_eq!((peer.stats().in_flight, peer.stats().dropped), (0, 0));
    for id in 1..=1000 {
        let cancel = remote.read().await;
        assert!(cancel.contains(&format!(r#""requestId":{id},"#)), "{cancel}");
    }
    remote.reads_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn an_answered_request_is_not_cancelled() {
    let (peer, mut remote, _log) = connect();
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), remote.answer(1, "{}"));
    answer.unwrap();
    remote.read().await;
    remote.reads_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_not_be_cancelled_is_not() {
    let (peer, mut remote, _log) = connect();
    let failure = peer
        .request("initialize", None, within(5).not_cancellable())
        .await;
    assert!(matches!(failure, Err(RequestError::TimedOut { .. })));
    let mut request = Box::pin(peer.request("initialize", None, within(5).not_cancellable()));
    poll_once(request.as_mut()).await;
    remote.read().await;
    remote.read().await;
    drop(request);
    remote.reads_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_before_its_write_leaves_no_trace() {
    let (peer, mut remote, _log) = connect_with(Limits::default(), 16);
    // More than the queue holds, behind a writer that is blocked by the first: some are queued, some wait for room.
    let mut requests: Vec<_> = (0..200)
        .map(|_| Box::pin(peer.request("a", None, within(10))))
        .collect();
    for request in &mut requests {
        poll_once(request.as_mut()).await;
        tokio::task::yield_now().await;
    }
    let first = requests.remove(0);
    drop(requests);
    assert_eq!(peer.stats().in_flight, 1);
    assert!(remote.read().await.contains(r#""id":1,"method":"a""#));
    remote.answer(1, "{}").await;
    first.await.unwrap();
    remote.reads_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_times_out_behind_a_blocked_writer_was_not_sent_and_never_is() {
    let (peer, mut remote, _log) = connect_with(Limits::default(), 16);
    let mut first = Box::pin(peer.request("first", None, within(60)));
    poll_once(first.as_mut()).await;
    remote.settle().await;
    let failure = peer.request("second", None, within(5)).await.unwrap_err();
    assert!(matches!(failure, RequestError::TimedOut { sent: false, .. }));
    assert!(remote.read().await.contains("first"));
    remote.reads_nothing().await;
}
