//! Whose call a server's question is for: over HTTP the stream on which it comes tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay::gateway::message::RawJson;
use mainstay::handler::{Answer, ServerRequest};
use mainstay::{CallOptions, ClientHandler};
use mainstay_testkit::http::HttpScript;
use mainstay_testkit::{Script, Speaks};
use serde_json::json;

use crate::http::support::{SOON, connected, keep, seen, serve, web_at};

/// Answers everything with its name, and counts.
struct Named(&'static str, AtomicUsize);

impl Named {
    fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self(name, AtomicUsize::new(0)))
    }

    fn asked(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl ClientHandler for Named {
    fn request(&self, _request: ServerRequest) -> Answer<'_> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let answer = RawJson::from_value(&json!({ "action": self.0 })).expect("an object");
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[tokio::test]
async fn a_question_on_the_stream_of_a_call_is_for_its_caller_however_many_call() {
    let script = Script::new().speaks(Speaks::Legacy);
    let remote = serve(script, HttpScript::new().streams()).await;
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    let calls = |who: &Arc<Named>, tool: &'static str, arguments| {
        let (server, handler) = (server.clone(), who.clone());
        async move {
            let options = CallOptions::default().timeout(SOON).handler(handler);
            server.call(tool, &arguments).options(options).await
        }
    };
    let (busy, ann, bob) = (Named::new("busy"), Named::new("ann"), Named::new("bob"));
    let runs = tokio::spawn(calls(&busy, "sleep_ms", json!({ "ms": 600_000 })));
    seen(&remote, |traffic| traffic.count("tools/call") == 1).await;
    let asks = json!({ "kind": "elicitation" });
    let (by_ann, by_bob) = tokio::join!(calls(&ann, "ask", asks.clone()), calls(&bob, "ask", asks));
    assert!(by_ann.unwrap().result.to_string().contains("ann"));
    assert!(by_bob.unwrap().result.to_string().contains("bob"));
    assert_eq!([busy.asked(), ann.asked(), bob.asked()], [0, 1, 1]);
    runs.abort();
}
