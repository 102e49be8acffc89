use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;
use crate::door::endless::Endless;

fn activity() -> Arc<ConnectionActivity> {
    Arc::new(ConnectionActivity::new(Instant::now()))
}

/// Reads until the connection fails, and says how long that took.
async fn failure_of(stream: &mut WriteTimeout<tokio::io::DuplexStream>) -> Duration {
    let began = Instant::now();
    let mut read = Vec::new();
    let failed = stream.read_to_end(&mut read).await.unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_head_counts_from_its_first_byte_whatever_trickles_in() {
    let (near, mut remote) = duplex(10);
    let mut stream = WriteTimeout::new(near, activity());
    let trickling = tokio::spawn(async move {
        sleep(Duration::from_secs(30)).await;
        while remote.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(500)).await;
        }
    });
    let took = failure_of(&mut stream).await;
    assert_eq!(took, Duration::from_secs(30) + HEAD_TIMEOUT);
    trickling.abort();
}

#[tokio::test(start_paused = true)]
async fn a_connection_stays_open_for_so_long_after_each_request_and_no_longer() {
    let (near, _remote) = duplex(10);
    let activity = activity();
    let mut stream = WriteTimeout::new(near, activity.clone());
    let mut piece = [0; 1];
    for _ in 0..3 {
        let idle = tokio::time::timeout(KEEP_ALIVE_TIMEOUT / 2, stream.read(&mut piece));
        assert!(idle.await.is_err());
        let request = activity.begin_request();
        let busy = tokio::time::timeout(2 * KEEP_ALIVE_TIMEOUT, stream.read(&mut piece));
        assert!(busy.await.is_err(), "a request runs");
        drop(request);
    }
    // Each time that hyper polls the connection, it flushes, too.
    let began = Instant::now();
    for _ in 0..20 {
        let read = tokio::time::timeout(Duration::from_secs(7), stream.read(&mut piece)).await;
        if read.is_ok() {
            break;
        }
        stream.flush().await.unwrap();
    }
    assert_eq!(began.elapsed(), KEEP_ALIVE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_still_reads_its_answer_is_not_disconnected_for_want_of_a_request() {
    let (near, mut remote) = duplex(10);
    let stream = WriteTimeout::new(near, activity());
    let (mut reader, mut writer) = tokio::io::split(stream);
    let slow = tokio::spawn(async move {
        let mut piece = [0; 10];
        for _ in 0..10 {
            sleep(WRITE_TIMEOUT / 2).await;
            remote.read_exact(&mut piece).await.unwrap();
        }
        remote
    });
    let reading = tokio::spawn(async move {
        let failed = reader.read(&mut [0; 1]).await.unwrap_err();
        (failed.kind(), Instant::now())
    });
    writer.write_all(&[0; 100]).await.unwrap();
    let (written, _remote) = (Instant::now(), slow.await.unwrap());
    let reading = tokio::time::timeout(2 * KEEP_ALIVE_TIMEOUT, reading);
    let (failed, at) = reading.await.expect("it is idle").unwrap();
    assert_eq!(failed, io::ErrorKind::TimedOut);
    assert!(
        written > at - KEEP_ALIVE_TIMEOUT && written < at,
        "it fails when it is idle"
    );
}

#[tokio::test(start_paused = true)]
async fn neither_a_body_nor_the_pause_before_the_next_request_counts_as_a_head() {
    let (near, mut remote) = duplex(10);
    let activity = activity();
    let mut stream = WriteTimeout::new(near, activity.clone());
    let mut piece = [0; 1];
    for _ in 0..3 {
        remote.write_all(b"x").await.unwrap();
        stream.read_exact(&mut piece).await.unwrap();
        let request = activity.begin_request();
        remote.write_all(b"x").await.unwrap();
        stream.read_exact(&mut piece).await.unwrap();
        sleep(2 * HEAD_TIMEOUT).await;
        remote.write_all(b"x").await.unwrap();
        stream.read_exact(&mut piece).await.unwrap();
        drop(request);
        let idle = tokio::time::timeout(2 * HEAD_TIMEOUT, stream.read(&mut piece));
        assert!(idle.await.is_err(), "it waits for the next request");
    }
    // The next request is whole before anything else is read.
    remote.write_all(b"x").await.unwrap();
    stream.read_exact(&mut piece).await.unwrap();
    drop(activity.begin_request());
    sleep(2 * HEAD_TIMEOUT).await;
    let idle = tokio::time::timeout(2 * HEAD_TIMEOUT, stream.read(&mut piece));
    assert!(idle.await.is_err(), "nothing of another has begun");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_disconnected_and_a_slow_one_is_not() {
    let (near, mut remote) = duplex(10);
    let mut stream = WriteTimeout::new(near, activity());
    let slow = tokio::spawn(async move {
        let mut piece = [0; 10];
        for _ in 0..5 {
            sleep(WRITE_TIMEOUT / 2).await;
            remote.read_exact(&mut piece).await.unwrap();
        }
        remote
    });
    stream.write_all(&[0; 50]).await.unwrap();
    let _remote = slow.await.unwrap();
    let started = Instant::now();
    let failed = stream.write_all(&[0; 50]).await.unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    assert!(started.elapsed() >= WRITE_TIMEOUT);
}

#[tokio::test]
async fn a_client_that_never_stops_writing_lets_other_tasks_run_between_its_turns() {
    for piece in [1, 16 * 1024] {
        let input = Endless::of(vec![b'x'; piece]);
        let counting = input.most_reads_in_one_turn(300);
        let activity = activity();
        // A request runs, so that no head is awaited.
        let request = activity.begin_request();
        let reading = tokio::spawn(async move {
            let mut stream = WriteTimeout::new(input, activity);
            let mut read = vec![0; 64 * 1024];
            while stream.read(&mut read).await.is_ok() {}
        });
        let most = counting.await;
        // The runtime may run a task twice before another.
        assert!(most <= 4 * Turn::MESSAGES, "{most} reads in one turn");
        reading.abort();
        drop(request);
    }
}

#[tokio::test(start_paused = true)]
async fn every_response_is_held_back_as_long_though_requests_share_a_timer() {
    let head_timer = HeadTimer::default();
    for pause in [Duration::ZERO, HOLD_BACK_TIMEOUT / 2, 3 * HOLD_BACK_TIMEOUT] {
        let answered = tokio::time::timeout(pause, head_timer.wait()).await;
        assert_eq!(answered.is_ok(), pause > HOLD_BACK_TIMEOUT);
        assert!(lock(&head_timer.timer).is_some(), "the next request can use it");
        let began = Instant::now();
        head_timer.wait().await;
        assert_eq!(began.elapsed(), HOLD_BACK_TIMEOUT);
    }
}

/// It is part of the principal of a client without a token: two clients behind one address have a budget each.
#[test]
fn no_two_connections_have_the_same_number() {
    let timers = [(); 3].map(|()| HeadTimer::default());
    let numbers: std::collections::HashSet<u64> = timers.iter().map(|timer| timer.connection).collect();
    assert_eq!(numbers.len(), timers.len());
}
