use std::net::Ipv4Addr;

use tokio::time::{advance, timeout};

use super::*;
use crate::principal::TokenDigest;

fn from(last: u32) -> HttpCaller {
    HttpCaller::Peer(IpAddr::V4(Ipv4Addr::from_bits(last)))
}

async fn is_evicted(permit: &ConnectionPermit) -> bool {
    timeout(Duration::ZERO, permit.activity.evicted()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_connection_is_evicted_and_none_with_a_request() {
    let limiter = Arc::new(ConnectionLimiter::new(3, 10));
    let [busy, first, second] = [1, 2, 3].map(|last| limiter.admit(from(last)).unwrap());
    let request = busy.activity.begin_request();
    advance(Duration::from_secs(1)).await;
    // The first has a request meanwhile, so the second is idle for longer.
    drop(first.activity.begin_request());
    let third = limiter.admit(from(4)).unwrap();
    assert!(third.evicted_another && is_evicted(&second).await);
    assert!(!is_evicted(&busy).await && !is_evicted(&first).await);
    assert_eq!(limiter.count(), 3);
    drop(second);
    assert_eq!(limiter.count(), 3, "its place was taken already");
    let open = [first.activity.begin_request(), third.activity.begin_request()];
    assert!(limiter.admit(from(5)).is_err(), "all have requests");
    drop((open, request));
    assert!(limiter.admit(from(5)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_address_with_too_many_connections_loses_one_of_its_own() {
    let limiter = Arc::new(ConnectionLimiter::new(10, 2));
    let other = limiter.admit(from(1)).unwrap();
    let mut own = Vec::new();
    for _ in 0..5 {
        advance(Duration::from_secs(1)).await;
        own.push(limiter.admit(from(2)).unwrap());
    }
    assert!(!is_evicted(&other).await);
    for evicted in &own[..3] {
        assert!(is_evicted(evicted).await);
    }
    assert!(!is_evicted(&own[3]).await && !is_evicted(&own[4]).await);
    own.clear();
    assert_eq!(limiter.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_its_answer_slowly_is_not_idle_meanwhile() {
    let limiter = Arc::new(ConnectionLimiter::new(2, 2));
    let [slow, idle] = [1, 2].map(|last| limiter.admit(from(last)).unwrap());
    advance(Duration::from_secs(1)).await;
    slow.activity.touch();
    let _new = limiter.admit(from(3)).unwrap();
    assert!(is_evicted(&idle).await && !is_evicted(&slow).await);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_connection_begins_no_request() {
    let limiter = Arc::new(ConnectionLimiter::new(1, 1));
    let first = limiter.admit(from(1)).unwrap();
    let _second = limiter.admit(from(1)).unwrap();
    assert!(first.activity.begin_request().is_none());
}

#[test]
fn a_client_may_burst_and_then_make_requests_as_tokens_come_back() {
    let rates = RateLimiter::new(RequestRate {
        per_second: 10.0,
        burst: 2.0,
    });
    let (one, other) = (HttpCaller::Token(TokenDigest::of("one")), from(1));
    let now = Instant::now();
    assert_eq!(rates.take(one, now), Ok(()));
    assert_eq!(rates.take(one, now), Ok(()));
    assert_eq!(rates.take(one, now), Err(Duration::from_millis(100)));
    assert_eq!(rates.take(other, now), Ok(()), "of another client");
    let later = now + Duration::from_millis(100);
    assert_eq!(rates.take(one, later), Ok(()));
    assert!(rates.take(one, later).is_err());
}

#[test]
fn each_wrong_token_of_an_address_waits_longer_up_to_a_limit_until_it_is_forgotten() {
    let wrong = WrongTokenLimiter::new();
    let now = Instant::now();
    let mut delays = (0..40).map(|_| wrong.note(from(1), now));
    assert_eq!(delays.next(), Some(FIRST_DELAY));
    assert_eq!(delays.next(), Some(2 * FIRST_DELAY));
    assert_eq!(delays.last(), Some(LONGEST_DELAY));
    assert_eq!(wrong.note(from(2), now), FIRST_DELAY, "of another address");
    let later = now + FORGOTTEN_AFTER;
    assert_eq!(wrong.note(from(1), later), FIRST_DELAY);
}

#[test]
fn no_more_addresses_are_remembered_than_the_limit() {
    let wrong = WrongTokenLimiter::new();
    let now = Instant::now();
    for last in 0..=3 * u32::try_from(ADDRESSES_LIMIT).unwrap() {
        wrong.note(from(last), now);
        assert!(wrong.addresses.lock().unwrap().len() <= ADDRESSES_LIMIT);
    }
}

#[tokio::test(start_paused = true)]
async fn only_so_many_wrong_tokens_are_delayed_at_once() {
    let wrong = WrongTokenLimiter::new();
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut delayed: Vec<_> = (0..DELAYED_LIMIT).map(|_| Box::pin(wrong.delay(peer))).collect();
    for attempt in &mut delayed {
        assert!(timeout(Duration::ZERO, attempt).await.is_err());
    }
    assert!(wrong.delay(peer).await.is_err());
    drop(delayed.pop());
    assert!(wrong.delay(peer).await.is_ok());
}

#[test]
fn the_first_event_is_logged_at_once_and_the_next_ones_together_after_the_interval() {
    let limiter = LogLimiter::default();
    let now = Instant::now();
    assert_eq!(limiter.count(now), Some(1));
    assert_eq!(limiter.count(now), None);
    assert_eq!(limiter.count(now + LOG_INTERVAL / 2), None);
    assert_eq!(limiter.count(now + LOG_INTERVAL), Some(3));
    assert_eq!(limiter.count(now + LOG_INTERVAL), None);
}
