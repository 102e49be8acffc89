//! How much the servers log, and which clients receive it.

use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};

use crate::router::client::{Client, modern};
use crate::router::{gateway, one, speaking};

/// Whether a client receives what a server logs at this level for it.
async fn logs(client: &mut Client, tool: &str, level: &str, meta: Option<&Value>) -> bool {
    let mut params = json!({ "name": tool, "arguments": { "level": level, "text": "x" } });
    if let Some(meta) = meta {
        params["_meta"] = meta.clone();
    }
    let id = client.begin("tools/call", params).await;
    let mut received = false;
    loop {
        let message = client.message().await;
        if message["id"] == id {
            return received;
        }
        assert_eq!(message["method"], "notifications/message", "{message}");
        if message["params"]["data"] == "level set" {
            // Sent outside of any call, when a level was set.
            continue;
        }
        assert_eq!(message["params"]["level"], level);
        received = true;
    }
}

fn levels_set(side: &MemoryServer) -> Vec<String> {
    let received = side.received();
    let levels = received
        .iter()
        .filter(|message| message.method() == "logging/setLevel");
    levels
        .map(|message| message.params()["level"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_shared_server_logs_as_much_as_the_most_verbose_session_wants_and_each_gets_its_own_level() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut curious, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut calm, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let (mut silent, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    assert!(
        logs(&mut silent, "log", "debug", None).await,
        "the server's own choice"
    );

    calm.ask("logging/setLevel", json!({ "level": "error" })).await;
    curious.ask("logging/setLevel", json!({ "level": "debug" })).await;
    calm.ask("logging/setLevel", json!({ "level": "warning" })).await;
    assert_eq!(
        levels_set(&side),
        ["error", "debug"],
        "the last one wanted no more than there is"
    );

    assert!(logs(&mut curious, "a__log", "debug", None).await);
    assert!(!logs(&mut calm, "log", "info", None).await);
    assert!(logs(&mut calm, "log", "warning", None).await);
    assert!(
        !logs(&mut silent, "log", "debug", None).await,
        "others asked for that"
    );
    assert!(logs(&mut silent, "log", "info", None).await);

    curious.leave().await;
    side.wait_for("logging/setLevel", 3).await;
    assert_eq!(
        levels_set(&side),
        ["error", "debug", "warning"],
        "who left counts no more"
    );
    calm.leave().await;
    let refused = silent.ask("logging/setLevel", json!({ "level": "loud" })).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(levels_set(&side).len(), 3, "there is no way to want nothing");
}

#[tokio::test]
async fn a_session_s_level_is_not_set_at_servers_that_it_does_not_see() {
    let (a, b) = (speaking(Speaks::Legacy), speaking(Speaks::Legacy));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    client.ask("logging/setLevel", json!({ "level": "error" })).await;
    let (mut both, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    both.ask("logging/setLevel", json!({ "level": "emergency" }))
        .await;
    assert_eq!(levels_set(&a.side(1).await), ["error"]);
    assert_eq!(levels_set(&b.side(1).await), ["emergency"]);
}

#[tokio::test]
async fn the_log_level_of_a_modern_client_reaches_servers_of_both_eras_and_no_other_client() {
    let wants = |level: &str| {
        let mut meta = modern(&json!({}));
        meta["io.modelcontextprotocol/logLevel"] = json!(level);
        meta
    };
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let a = speaking(speaks);
        let gateway = gateway(&[("a", &a)]).await;
        let side = a.side(1).await;
        let mut client = Client::connect(&gateway, one("a"));
        assert!(
            logs(&mut client, "log", "debug", Some(&wants("debug"))).await,
            "{speaks:?}"
        );
        assert!(
            !logs(&mut client, "log", "debug", Some(&wants("error"))).await,
            "{speaks:?}"
        );
        assert!(
            !logs(&mut client, "log", "emergency", Some(&modern(&json!({})))).await,
            "{speaks:?}"
        );
        let in_meta = |message: &mainstay_testkit::Incoming| {
            message.params()["_meta"]["io.modelcontextprotocol/logLevel"].clone()
        };
        let calls: Vec<_> = side
            .received()
            .iter()
            .filter(|message| message.method() == "tools/call")
            .map(in_meta)
            .collect();
        match speaks {
            Speaks::Legacy | Speaks::Both => {
                assert_eq!(levels_set(&side), ["debug"]);
                assert_eq!(calls, [Value::Null, Value::Null, Value::Null]);
            }
            Speaks::Modern => {
                assert_eq!(calls, [json!("debug"), json!("error"), Value::Null]);
            }
        }
        let (mut session, _) = Client::initialized(&gateway, one("a"), json!({})).await;
        session
            .ask("logging/setLevel", json!({ "level": "warning" }))
            .await;
        assert!(logs(&mut session, "log", "warning", None).await, "{speaks:?}");
        assert!(!logs(&mut session, "log", "info", None).await, "{speaks:?}");
    }
}
