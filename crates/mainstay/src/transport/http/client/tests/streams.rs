use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use mainstay_testkit::clock;
use tokio::time::timeout;

use super::super::connection::Response;
use super::super::endpoint::Endpoint;
use super::super::events::ResponseEvents;
use super::super::refusal::read_body;
use super::remote_server::{Exchange, LONG};
use super::*;

#[tokio::test]
async fn a_request_is_answered_by_the_last_event_of_a_stream() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(1, "a");
    let mut asked = remote.next().await;
    asked.events("").await;
    asked
        .event("data: {\"method\":\"notifications/progress\"}\n\nevent: ping\ndata: x\n\n")
        .await;
    assert_eq!(owner.message().await, r#"{"method":"notifications/progress"}"#);
    asked.event(&format!("data: {}\n\n", json(1))).await;
    assert_eq!(owner.message().await, json(1));
    asked.end().await;
}

#[tokio::test]
async fn a_stream_is_heard_to_its_end_and_its_connection_used_again() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    for id in 1..20 {
        owner.ask(id, "a");
        let mut asked = remote.next().await;
        assert_eq!(asked.connection, 1, "a kept connection is used again");
        asked.events("").await;
        asked.event(&format!("data: {}\n\n", json(id))).await;
        assert_eq!(owner.message().await, json(id));
        asked
            .last_event("data: {\"method\":\"notifications/after\"}\n\n")
            .await;
        assert_eq!(owner.message().await, r#"{"method":"notifications/after"}"#);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_does_not_end_after_its_answer_is_closed() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(1, "a");
    let mut asked = remote.next().await;
    asked.events("").await;
    asked.event(&format!("data: {}\n\n", json(1))).await;
    assert_eq!(owner.message().await, json(1));
    assert!(asked.goes_away().await);
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_answer_fails_the_request_at_once() {
    for broken in [false, true] {
        let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
        owner.ask(1, "a");
        let mut asked = remote.next().await;
        asked.events("").await;
        asked
            .event("data: {\"method\":\"notifications/progress\"}\n\n")
            .await;
        owner.message().await;
        if broken {
            drop(asked);
        } else {
            asked.end().await;
        }
        let (outcome, failure) = owner.failure(1).await;
        assert_eq!(outcome, Outcome::Unknown);
        match broken {
            true => assert!(matches!(failure, HttpFailure::Broken { .. }), "{failure:?}"),
            false => assert_eq!(failure, HttpFailure::StreamEnded),
        }
        owner.ask(2, "b");
        remote.next().await.json(200, &json(2)).await;
        assert_eq!(
            owner.message().await,
            json(2),
            "it is the failure of that request alone"
        );
    }
}

#[tokio::test]
async fn a_stream_with_event_ids_is_taken_up_again_until_the_answer() {
    let (remote, mut owner) = Owner::start_session().await;
    owner.ask(2, "a");
    let mut asked = remote.next().await;
    asked.events("").await;
    asked.event("id: e1\nretry: 1\ndata:\n\n").await;
    asked.end().await;
    let mut resumed = remote.next_of("GET").await;
    assert_eq!(resumed.header("last-event-id"), Some("e1"));
    assert_eq!(resumed.header("mcp-session-id"), Some("s1"));
    resumed.events("").await;
    resumed.event(&format!("id: e2\ndata: {}\n\n", json(2))).await;
    assert_eq!(owner.message().await, json(2));
}

#[tokio::test]
async fn the_owner_learns_on_which_stream_each_message_came() {
    use crate::transport::MessageStream::{OfRequest, Unasked};
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let mut standing = Owner::session(&remote, &mut owner).await;
    standing.events("").await;
    // The answer to a request that runs, on the stream of no request.
    owner.ask(2, "a");
    let mut asked = remote.next().await;
    standing.event(&format!("data: {}\n\n", json(2))).await;
    assert_eq!(owner.message_and_stream().await, (Unasked, json(2)));
    // The answer to another request, on the stream of this one, and then where that one was resumed.
    asked.events("").await;
    asked
        .event(&format!("id: e1\nretry: 1\ndata: {}\n\n", json(3)))
        .await;
    assert_eq!(owner.message_and_stream().await, (OfRequest(2), json(3)));
    asked.end().await;
    let mut resumed = remote.next_of("GET").await;
    resumed.events("").await;
    resumed.event(&format!("data: {}\n\n", json(2))).await;
    assert_eq!(owner.message_and_stream().await, (OfRequest(2), json(2)));
    // One that is no stream.
    owner.ask(4, "a");
    let asked = remote.next_of("POST").await;
    let content = "content-type: application/json\r\n";
    asked.answer(200, content, &json(4)).await;
    assert_eq!(owner.message_and_stream().await, (OfRequest(4), json(4)));
}

#[tokio::test]
async fn a_server_killed_in_the_middle_of_a_resumable_answer_fails_the_request_within_milliseconds() {
    let (mut remote, mut owner) = Owner::start_session().await;
    owner.ask(2, "a");
    let mut asked = remote.next().await;
    asked.events("").await;
    asked
        .event("id: e1\nretry: 60000\ndata: {\"method\":\"a\"}\n\n")
        .await;
    owner.message().await;
    remote.stop_listening().await;
    drop(asked);
    // The server's own pause is not waited for.
    let received = clock::within(Duration::from_secs(1), owner.received()).await;
    assert!(matches!(received, Received::Failed(2, failure) if failure.outcome() == Outcome::Unknown));
    assert!(matches!(
        owner.retirement().await,
        crate::transport::End::Io { .. }
    ));
}

#[tokio::test]
async fn a_resumed_stream_of_a_lost_session_fails_its_request_and_retires_the_transport() {
    let (remote, mut owner) = Owner::start_session().await;
    owner.ask(2, "a");
    let mut asked = remote.next().await;
    asked.events("").await;
    asked.event("id: e1\ndata:\n\n").await;
    drop(asked);
    remote.next_of("GET").await.answer(404, "", "").await;
    assert_eq!(
        owner.failure(2).await,
        (Outcome::Unknown, HttpFailure::SessionLost { status: 404 })
    );
    assert_eq!(owner.retirement().await, crate::transport::End::SessionLost);
}

#[tokio::test]
async fn an_event_beyond_the_limit_fails_its_request() {
    let limit = 1000;
    let options = HttpOptions::new().limits(crate::transport::Limits::message(limit));
    let (remote, mut owner) = Owner::start(options).await;
    owner.ask(1, "a");
    let mut asked = remote.next().await;
    asked.events("").await;
    asked.event(&format!("data: {}\n\n", "x".repeat(limit + 1))).await;
    assert_eq!(
        owner.failure(1).await,
        (Outcome::Answered, HttpFailure::BodyTooLarge { limit })
    );
    assert!(asked.goes_away().await);
}

/// A large answer that the remote peer has begun, and does not end.
async fn begin_large(remote: &RemoteServer, endpoint: &Endpoint) -> (Exchange, Response) {
    let asked = endpoint.request(Method::GET).await.unwrap();
    let (response, begun) = tokio::join!(endpoint.send(&asked, None), async {
        let mut asked = remote.next().await;
        asked.events("").await;
        let piece = "x".repeat(300 * 1024);
        asked.event(&format!("data: {piece}")).await;
        asked
    });
    (begun, response.unwrap())
}

#[tokio::test]
async fn large_answers_that_come_at_the_same_time_take_turns() {
    let remote = RemoteServer::start().await;
    let endpoint = Endpoint::new(remote.url(), HttpOptions::new()).unwrap();
    let limit = endpoint.options.limits.message;
    let mut begun = Vec::new();
    let mut reading = Vec::new();
    for is_event in [false, true] {
        let (asked, mut response) = begin_large(&remote, &endpoint).await;
        begun.push(asked);
        reading.push(tokio::spawn(async move {
            match is_event {
                true => drop(ResponseEvents::new(response, limit).next().await),
                false => drop(read_body(&mut response, limit).await),
            }
        }));
    }
    // Each may become as long as the longest, and there is room for two of these.
    let full = async {
        while endpoint.free_receiving_room() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, full).await.expect("they take it");
    let (_asked, mut third) = begin_large(&remote, &endpoint).await;
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut room = pin!(third.take_room(1));
        assert!(room.as_mut().poll(&mut cx).is_pending());
        reading.pop().unwrap().abort();
        timeout(LONG, room).await.expect("the second has gone");
    }
    third.leave_room();
    drop(begun);
    reading.pop().unwrap().await.unwrap();
    assert!(endpoint.free_receiving_room() > 0);
}
