//! The transport against a remote peer on loopback whose every answer a test writes by hand.

mod failures;
mod floods;
mod kept;
pub(in crate::transport) mod remote_server;
mod sessions;
mod streams;

use std::sync::Arc;

use http::Method;

use super::endpoint::Outgoing;
use super::*;
use crate::transport::http::{Authorizing, BearerToken};
use crate::transport::{Frame, Purpose};
use crate::wire::Outcome;
use remote_server::{Owner, Received, RemoteServer, json, request};

#[tokio::test]
async fn a_request_is_answered_by_json() {
    let (remote, mut owner) = Owner::start(HttpOptions::new().header("x-key", "k")).await;
    owner.ask(1, "tools/list");
    let asked = remote.next().await;
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/mcp"));
    assert_eq!(asked.body, request(1, "tools/list"));
    assert_eq!(
        asked.header("accept"),
        Some("application/json, text/event-stream")
    );
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.header("x-key"), Some("k"));
    asked
        .json(200, r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#)
        .await;
    assert_eq!(
        owner.message().await,
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#
    );
}

#[tokio::test]
async fn every_request_says_who_sends_it_unless_the_configuration_says_something_else() {
    let own = concat!("mainstay/", env!("CARGO_PKG_VERSION"));
    let named = HttpOptions::new().header("User-Agent", "curl/8");
    for (options, expected) in [(HttpOptions::new(), own), (named, "curl/8")] {
        let (remote, mut owner) = Owner::start(options.clone()).await;
        let standing = Owner::session(&remote, &mut owner).await;
        assert_eq!(standing.header("user-agent"), Some(expected));
        standing.answer(405, "", "").await;
        owner.ask(2, "a");
        let asked = remote.next_of("POST").await;
        assert_eq!(asked.header("user-agent"), Some(expected));
        owner.outbound.close();
        let delete_session = remote.next_of("DELETE").await;
        assert_eq!(delete_session.header("user-agent"), Some(expected));

        let remote = RemoteServer::start().await;
        let owner = Owner::over(crate::transport::Sse::new(remote.url(), options).unwrap());
        let mut stream = remote.next_of("GET").await;
        assert_eq!(stream.header("user-agent"), Some(expected));
        stream.events("").await;
        stream.event("event: endpoint\ndata: /messages\n\n").await;
        owner.ask(1, "a");
        let asked = remote.next_of("POST").await;
        assert_eq!(asked.header("user-agent"), Some(expected));
    }
}

#[tokio::test]
async fn a_request_that_showed_an_old_credential_is_renewed_whoever_asked_for_the_new_one_meanwhile() {
    let token = Arc::new(BearerToken::new("one"));
    let options = HttpOptions::new().credentials(token.clone());
    let endpoint = Endpoint::new("http://127.0.0.1:1/mcp", options).unwrap();
    let mut first = endpoint.request(Method::POST).await.unwrap();
    token.set("two");
    let mut other = endpoint.request(Method::POST).await.unwrap();
    let refusal = |shown: &Outgoing| CredentialRefusal {
        authorization: shown.credential().cloned(),
        status: 401,
        challenge: Challenge::default(),
    };
    let refused = refusal(&first);
    assert!(matches!(endpoint.renew(&mut first, &refused).await, Ok(true)));
    assert_eq!(first.credential().unwrap(), "Bearer two");
    let refused = refusal(&other);
    assert!(matches!(endpoint.renew(&mut other, &refused).await, Ok(false)));
}

#[tokio::test]
async fn requests_run_side_by_side_and_share_connections() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(1, "a");
    let first = remote.next().await;
    owner.ask(2, "b");
    let second = remote.next().await;
    assert_eq!((first.connection, second.connection), (1, 2));
    second.json(200, &json(2)).await;
    assert_eq!(owner.message().await, json(2));
    first.json(200, &json(1)).await;
    assert_eq!(owner.message().await, json(1));
    for id in 3..20 {
        owner.ask(id, "c");
        let next = remote.next().await;
        assert!(next.connection <= 2, "a kept connection is used again");
        next.json(200, &json(id)).await;
        owner.message().await;
    }
}

#[tokio::test]
async fn what_is_sent_before_the_start_is_carried_after_it() {
    let remote = RemoteServer::start().await;
    let http = Http::new(remote.url(), HttpOptions::new()).unwrap();
    let outbound = http.outbound();
    outbound
        .try_send(Frame::new(request(1, "a").into(), Purpose::Request { id: 1 }))
        .unwrap();
    let (mut owner, inbound) = Owner::of(outbound);
    Box::new(http).start(inbound);
    remote.next().await.json(200, &json(1)).await;
    assert_eq!(owner.message().await, json(1));
}

#[tokio::test]
async fn the_end_is_told_once_and_last() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(1, "a");
    let asked = remote.next().await;
    owner.outbound.close();
    owner.outbound.close();
    assert!(matches!(
        owner.received().await,
        Received::Ended(crate::transport::End::Closed)
    ));
    assert!(asked.goes_away().await, "nothing is carried any more");
    assert!(
        owner
            .outbound
            .try_send(Frame::new(request(2, "a").into(), Purpose::Request { id: 2 }))
            .is_err()
    );
    owner.nothing_more().await;
}

#[tokio::test]
async fn a_frame_that_was_withdrawn_is_not_sent() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let delivery = Arc::new(crate::transport::Delivery::default());
    assert!(delivery.withdraw());
    let frame = Frame::new(request(1, "a").into(), Purpose::Request { id: 1 }).tracked_by(delivery);
    owner.outbound.try_send(frame).unwrap();
    owner.ask(2, "b");
    let asked = remote.next().await;
    assert_eq!(asked.body, request(2, "b"));
    asked.json(200, &json(2)).await;
    assert_eq!(owner.message().await, json(2));
}

#[tokio::test]
async fn a_modern_request_is_cancelled_by_the_end_of_its_stream() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t",{meta}}}}}"#);
    owner.send(call, Purpose::Request { id: 1 });
    let asked = remote.next().await;
    assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(
        (asked.header("mcp-method"), asked.header("mcp-name")),
        (Some("tools/call"), Some("t"))
    );
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    owner.cancel(1, cancel);
    assert!(asked.goes_away().await);
    owner.ask(2, "b");
    let next = remote.next().await;
    assert_eq!(next.body, request(2, "b"), "no notification was sent");
    next.json(200, &json(2)).await;
    assert_eq!(
        owner.message().await,
        json(2),
        "and of the first nothing is received"
    );
}

#[tokio::test]
async fn a_unix_socket_stands_in_for_the_host() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mcp.sock");
    let remote = RemoteServer::start_unix(&path);
    let http = Http::new("http://localhost/mcp", HttpOptions::new().unix_socket(&path)).unwrap();
    let mut owner = Owner::over(http);
    owner.ask(1, "a");
    let asked = remote.next().await;
    assert_eq!(asked.header("host"), Some("localhost"));
    asked.json(200, &json(1)).await;
    assert_eq!(owner.message().await, json(1));
}

#[tokio::test]
async fn every_request_asks_for_the_credential_of_the_moment() {
    struct Counting(std::sync::atomic::AtomicU32);
    impl Credentials for Counting {
        fn authorization(&self) -> Authorizing<'_> {
            let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let value = match count {
                0 => Ok(None),
                1 => Ok(Some("Bearer one".parse().unwrap())),
                _more => Err(std::io::Error::other("logged out")),
            };
            Box::pin(std::future::ready(value))
        }
    }
    let credentials = Arc::new(Counting(0.into()));
    let (remote, mut owner) = Owner::start(HttpOptions::new().credentials(credentials)).await;
    for (id, expected) in [(1, None), (2, Some("Bearer one"))] {
        owner.ask(id, "a");
        let asked = remote.next().await;
        assert_eq!(asked.header("authorization"), expected);
        asked.json(200, &json(id)).await;
        owner.message().await;
    }
    owner.ask(3, "a");
    let message = "logged out".to_owned();
    assert_eq!(
        owner.failure(3).await,
        (Outcome::NotSent, HttpFailure::NoCredential { message })
    );
}

#[test]
fn a_frame_that_is_sent_while_the_runtime_shuts_down_blocks_nobody() {
    struct LastWord(Arc<dyn Outbound>);
    impl Drop for LastWord {
        fn drop(&mut self) {
            let word = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            let _ = self.0.try_send(Frame::new(word.into(), Purpose::Notification));
        }
    }
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (remote, owner) = Owner::start(HttpOptions::new()).await;
            let last_word = LastWord(owner.outbound.clone());
            owner.ask(1, "a");
            remote.next().await;
            tokio::spawn(async move {
                let _last_word = last_word;
                std::future::pending::<()>().await;
            });
        });
        drop(runtime);
        done.send(()).unwrap();
    });
    is_done
        .recv_timeout(std::time::Duration::from_secs(10))
        .expect("the runtime is gone");
}
