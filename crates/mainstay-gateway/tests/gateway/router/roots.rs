//! The roots of clients, outside of any call.

use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};

use crate::router::client::Client;
use crate::router::{gateway, one, speaking};

const CHANGED: &str = "notifications/roots/list_changed";

/// Has the server ask for roots outside of any call.
async fn ask(side: &MemoryServer, id: &str) {
    side.inject_message(&json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" }))
        .await;
}

/// What the server was answered, once it has so many answers.
async fn answered(side: &MemoryServer, id: &str, count: usize) -> Value {
    // Answers have no method.
    side.wait_for("", count).await;
    let mut received = side.received().into_iter();
    let answer = received.find(|message| message.method().is_empty() && message.id() == id);
    answer.expect("an answer").outcome().clone()
}

#[tokio::test]
async fn a_server_that_asks_outside_of_a_call_is_answered_by_its_only_session() {
    let (a, b) = (speaking(Speaks::Legacy), speaking(Speaks::Legacy));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let side = a.side(1).await;
    ask(&side, "none").await;
    let declined = answered(&side, "none", 1).await;
    assert!(
        declined["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no client is there"),
        "{declined}"
    );

    let can = json!({ "roots": { "listChanged": true } });
    let (mut client, _) = Client::initialized(&gateway, one("a"), can.clone()).await;
    side.wait_for(CHANGED, 1).await;
    ask(&side, "one").await;
    let asked = client.received("roots/list").await;
    let roots = json!({ "roots": [{ "uri": "file:///here" }] });
    client
        .write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": roots }).to_string())
        .await;
    assert_eq!(answered(&side, "one", 2).await["result"], roots);

    let (mut other, _) = Client::initialized(&gateway, Scope::Union, can).await;
    other.ask("ping", json!({})).await;
    ask(&side, "two").await;
    let declined = answered(&side, "two", 3).await;
    assert!(
        declined["error"]["message"]
            .as_str()
            .unwrap()
            .contains("several clients"),
        "{declined}"
    );
    for client in [&mut client, &mut other] {
        let next = client.begin("ping", json!({})).await;
        assert_eq!(client.message().await["id"], next, "no client was asked");
    }
    assert_eq!(side.count(CHANGED), 1, "the roots of two clients are no client's");
    client.leave().await;
    side.wait_for(CHANGED, 2).await;
}

#[tokio::test]
async fn a_change_of_a_client_s_roots_reaches_the_servers_that_it_sees() {
    let (a, b) = (speaking(Speaks::Legacy), speaking(Speaks::Legacy));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    client.notify(CHANGED, json!({})).await;
    client.ask("ping", json!({})).await;
    a.side(1).await.wait_for(CHANGED, 1).await;
    assert_eq!(b.side(1).await.count(CHANGED), 0);
    assert_eq!(
        a.side(1).await.count(CHANGED),
        1,
        "one that has no roots is none to ask"
    );
}
