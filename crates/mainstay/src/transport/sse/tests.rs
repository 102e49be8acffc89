use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::transport::http::client::tests::remote_server::{Exchange, Owner, RemoteServer, json, request};
use crate::transport::http::{Authorizing, CredentialRefusal, Credentials, Refusing};
use crate::wire::Outcome;

async fn start() -> (RemoteServer, Owner, Exchange) {
    let remote = RemoteServer::start().await;
    let owner = Owner::over(Sse::new(remote.url(), HttpOptions::new()).unwrap());
    let stream = remote.next_of("GET").await;
    assert_eq!(stream.header("accept"), Some("text/event-stream"));
    (remote, owner, stream)
}

#[tokio::test]
async fn messages_are_posted_to_the_address_the_stream_names_and_answered_on_the_stream() {
    let (remote, owner, mut stream) = start().await;
    owner.ask(1, "initialize");
    stream.events("").await;
    stream
        .event("event: endpoint\ndata: /messages?session=7\n\n")
        .await;
    let asked = remote.next_of("POST").await;
    assert_eq!(
        (asked.path.as_str(), asked.body),
        ("/messages?session=7", request(1, "initialize"))
    );
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_transport() {
    let (remote, mut owner, mut stream) = start().await;
    stream.events("").await;
    stream.event("event: endpoint\ndata: /messages\n\n").await;
    owner.ask(1, "a");
    remote.next_of("POST").await.answer(202, "", "Accepted").await;
    stream
        .event(&format!("event: message\ndata: {}\n\n", json(1)))
        .await;
    assert_eq!(owner.message().await, json(1));
    drop(stream);
    assert_eq!(owner.end().await, End::EndOfStream);
}

#[tokio::test]
async fn an_address_of_another_origin_is_not_used() {
    for foreign in [
        "http://other.example/messages",
        "//other.example/",
        "http://127.0.0.1:1/messages",
    ] {
        let (_remote, mut owner, mut stream) = start().await;
        owner.ask(1, "a");
        stream.events("").await;
        stream
            .event(&format!("event: endpoint\ndata: {foreign}\n\n"))
            .await;
        let address = foreign.to_owned();
        let failure = Box::new(HttpFailure::ForeignAddress { address });
        assert_eq!(owner.end().await, End::NotOpened(failure));
    }
}

#[tokio::test]
async fn a_stream_that_is_refused_fails_what_waits_with_the_reason() {
    let (_remote, mut owner, stream) = start().await;
    owner.ask(1, "a");
    stream
        .answer(401, "www-authenticate: Bearer scope=\"a\"\r\n", "")
        .await;
    let End::NotOpened(failure) = owner.end().await else {
        panic!("it was never open");
    };
    assert!(matches!(*failure, HttpFailure::AuthRequired { status: 401, .. }));
}

#[tokio::test]
async fn a_message_that_is_not_accepted_fails_alone() {
    let (remote, mut owner, mut stream) = start().await;
    stream.events("").await;
    stream.event("event: endpoint\ndata: /messages\n\n").await;
    owner.ask(1, "a");
    remote.next_of("POST").await.answer(413, "", "").await;
    assert_eq!(owner.failure(1).await.0, Outcome::Refused);
    owner.ask(2, "a");
    remote.next_of("POST").await.answer(202, "", "").await;
    stream.event(&format!("data: {}\n\n", json(2))).await;
    assert_eq!(owner.message().await, json(2));
}

/// A provider that cannot renew its token for now.
#[derive(Default)]
struct Unrenewable(AtomicBool);

impl Credentials for Unrenewable {
    fn authorization(&self) -> Authorizing<'_> {
        let value = if self.0.load(Ordering::Relaxed) {
            Err(io::Error::other("the authorization server is down"))
        } else {
            Ok(Some(HeaderValue::from_static("Bearer one")))
        };
        Box::pin(std::future::ready(value))
    }

    fn refused<'a>(&'a self, _refusal: &'a CredentialRefusal) -> Refusing<'a> {
        self.0.store(true, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test]
async fn a_message_whose_token_cannot_be_renewed_for_now_asks_for_no_login() {
    let remote = RemoteServer::start().await;
    let options = HttpOptions::new().credentials(Arc::new(Unrenewable::default()));
    let mut owner = Owner::over(Sse::new(remote.url(), options).unwrap());
    let mut stream = remote.next_of("GET").await;
    stream.events("").await;
    stream.event("event: endpoint\ndata: /messages\n\n").await;
    owner.ask(1, "a");
    remote.next_of("POST").await.answer(401, "", "").await;
    let (outcome, failure) = owner.failure(1).await;
    assert_eq!(outcome, Outcome::Refused);
    assert!(matches!(failure, HttpFailure::NoCredential { .. }), "{failure}");
}
