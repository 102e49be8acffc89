//! There are never more servers of sessions than there is room for.

use mainstay_gateway::Scope;
use serde_json::json;

use crate::isolation::{call, gateway_of, server};
use crate::router::client::{Client, LONG};

#[tokio::test]
async fn a_session_beyond_the_limit_is_refused_until_another_has_closed() {
    let (own, all) = (server(), server());
    let gateway = gateway_of(&own, &all, 1).await;
    let (mut one, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    one.ask("tools/call", call("own__echo", json!({}))).await;
    let refused = two.ask("tools/call", call("own__echo", json!({}))).await;
    let error = &refused["error"];
    assert_eq!(error["code"], -32000, "{refused}");
    assert_eq!(
        error["message"],
        "server own runs once for each session, and 1 such servers run already: it did not run. Call again when another \
         session has ended, or let `mainstay serve` have more of them (--max-isolated)"
    );
    assert_eq!(
        error["data"]["mainstay"],
        json!({ "outcome": "not_sent", "server": "own", "limit": 1 })
    );
    let beside = two.ask("tools/call", call("all__echo", json!({ "n": 1 }))).await;
    assert_eq!(
        beside["result"]["structuredContent"]["n"], 1,
        "a shared one needs no room"
    );
    let again = one.ask("tools/call", call("own__echo", json!({ "n": 2 }))).await;
    assert_eq!(
        again["result"]["structuredContent"]["n"], 2,
        "who has one keeps it"
    );

    one.leave().await;
    own.side(2).await.over().await;
    // Its place is free when nothing of it is left. No event says so.
    let finds_room = async {
        loop {
            let answer = two.ask("tools/call", call("own__echo", json!({ "n": 3 }))).await;
            if answer.get("error").is_none() {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::time::timeout(LONG, finds_room).await.expect("room");
    assert_eq!(answer["result"]["structuredContent"]["n"], 3);
    two.leave().await;
}

#[tokio::test]
async fn a_gateway_that_was_closed_has_no_servers_and_starts_none() {
    let (own, all) = (server(), server());
    let gateway = gateway_of(&own, &all, 4).await;
    let (mut one, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    one.ask("tools/call", call("echo", json!({}))).await;
    gateway.close(LONG).await;
    own.side(2).await.over().await;
    let refused = two.ask("tools/call", call("echo", json!({}))).await;
    assert!(refused.get("error").is_some(), "{refused}");
    one.leave().await;
    two.leave().await;
}
