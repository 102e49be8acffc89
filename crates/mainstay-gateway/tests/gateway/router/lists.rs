//! Lists: in whose order they are, how long they may be kept, and how their pages are turned.

use std::time::{SystemTime, UNIX_EPOCH};

use mainstay::Fleet;
use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::fleet::Memory;
use mainstay_testkit::{Script, Speaks};
use serde_json::{Value, json};

use crate::router::client::{Client, modern};
use crate::router::{gateway, one, started};

fn keeping(speaks: Speaks, ttl_ms: u64, private: bool) -> Script {
    Script {
        speaks,
        ttl_ms,
        private,
        ..Script::default()
    }
}

async fn listed(client: &mut Client, method: &str) -> Value {
    let params = json!({ "_meta": modern(&json!({})) });
    client.ask(method, params).await["result"].clone()
}

#[tokio::test]
async fn a_modern_client_may_keep_a_list_for_what_is_left_of_its_server_s_time_and_for_whom_it_says() {
    let public = Memory::new(keeping(Speaks::Modern, 60_000, false));
    let private = Memory::new(keeping(Speaks::Modern, 30_000, true));
    let gateway = gateway(&[("public", &public), ("private", &private)]).await;
    for (scope, most, keeps) in [
        (one("public"), 60_000, "public"),
        (one("private"), 30_000, "private"),
        (Scope::Union, 30_000, "private"),
    ] {
        let mut client = Client::connect(&gateway, scope.clone());
        let methods = [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ];
        for method in methods {
            let list = listed(&mut client, method).await;
            let ttl = list["ttlMs"].as_u64().unwrap();
            assert!(0 < ttl && ttl < most, "{scope:?} {method}: {ttl}");
            assert_eq!(list["cacheScope"], keeps, "{scope:?} {method}");
        }
        let (mut legacy, _) = Client::initialized(&gateway, scope, json!({})).await;
        let list = legacy.ask("tools/list", json!({})).await;
        assert!(list["result"].get("ttlMs").is_none(), "{list}");
        assert!(list["result"].get("cacheScope").is_none(), "{list}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_say_lets_nothing_be_kept_and_one_without_such_a_list_has_no_say() {
    let legacy = Memory::new(keeping(Speaks::Legacy, 0, false));
    let modern = Memory::new(keeping(Speaks::Modern, 60_000, false));
    let toolless = Memory::new(Script {
        capabilities: Some(json!({ "prompts": {} })),
        ..keeping(Speaks::Legacy, 0, false)
    });
    let first = gateway(&[("legacy", &legacy), ("modern", &modern)]).await;
    let mut client = Client::connect(&first, Scope::Union);
    let list = listed(&mut client, "tools/list").await;
    assert_eq!(
        (&list["ttlMs"], &list["cacheScope"]),
        (&json!(0), &json!("private"))
    );
    let second = gateway(&[("modern", &modern), ("toolless", &toolless)]).await;
    let mut client = Client::connect(&second, Scope::Union);
    let list = listed(&mut client, "tools/list").await;
    assert_eq!(list["cacheScope"], "public", "its tools are not in the list");
    assert!(list["ttlMs"].as_u64().unwrap() > 0);
    let list = listed(&mut client, "prompts/list").await;
    assert_eq!(
        (&list["ttlMs"], &list["cacheScope"]),
        (&json!(0), &json!("private"))
    );
}

#[tokio::test]
async fn a_list_to_which_a_server_will_still_add_may_not_be_kept() {
    let here = Memory::new(keeping(Speaks::Modern, 60_000, false));
    let away = Memory::new(keeping(Speaks::Modern, 60_000, false));
    away.set_down(true);
    let configs =
        [("here", &here), ("away", &away)].map(|(name, memory)| memory.config(name).build().unwrap());
    let gateway = Gateway::start(Fleet::builder(), configs);
    mainstay_testkit::fleet::connected(&gateway.fleet().server("here").unwrap()).await;
    let mut client = Client::connect(&gateway, Scope::Union);
    assert_eq!(listed(&mut client, "tools/list").await["ttlMs"], 0);
    gateway.fleet().server("away").unwrap().disable().await.unwrap();
    assert!(listed(&mut client, "tools/list").await["ttlMs"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn what_a_server_says_of_keeping_a_resource_passes_as_it_is() {
    let a = Memory::new(keeping(Speaks::Modern, 1234, true));
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, Scope::Union);
    let params = json!({ "uri": "mem://one", "_meta": modern(&json!({})) });
    let read = client.ask("resources/read", params).await;
    assert_eq!(read["result"]["ttlMs"], 1234);
    assert_eq!(read["result"]["cacheScope"], "private");
    let (mut other, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    other.ask("resources/read", json!({ "uri": "mem://one" })).await;
    let side = a.side(1).await;
    assert_eq!(
        side.count("resources/read"),
        2,
        "what was read for one is not given to another"
    );
}

#[tokio::test]
async fn one_server_s_list_is_in_its_order_and_byte_for_byte_and_the_union_s_is_sorted() {
    let tools = [
        json!({ "name": "zeta", "inputSchema": { "type": "object" }, "x-future": [1.0, "é"] }),
        json!({ "name": "alpha", "inputSchema": { "type": "object" } }),
        json!({ "name": "mid", "inputSchema": { "type": "object" } }),
    ];
    let of = |tools: &[Value]| {
        Memory::new(Script {
            builtin_tools: false,
            tools: tools.to_vec(),
            page_size: Some(2),
            ..Script::default()
        })
    };
    let (a, b) = (of(&tools), of(&tools[1..2]));
    let gateway = gateway(&[("b", &b), ("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let request = json!({ "jsonrpc": "2.0", "id": 70, "method": "tools/list", "params": {} });
    client.write(&request.to_string()).await;
    let line = client.line().await;
    let items: Vec<String> = tools.iter().map(Value::to_string).collect();
    assert!(
        line.contains(&format!(r#""tools":[{}]"#, items.join(","))),
        "{line}"
    );
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let union = client.ask("tools/list", json!({})).await;
    let names: Vec<_> = union["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a__alpha", "a__mid", "a__zeta", "b__alpha"]);
}

#[tokio::test]
async fn the_pages_of_a_long_list_can_be_turned_until_the_list_changes() {
    let tools: Vec<Value> = (0..1500)
        .map(|n| json!({ "name": format!("t{n}"), "inputSchema": { "type": "object" } }))
        .collect();
    let a = Memory::new(Script {
        builtin_tools: false,
        tools: tools.clone(),
        ..Script::default()
    });
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let first = client.ask("tools/list", json!({})).await["result"].clone();
    let cursor = json!({ "cursor": first["nextCursor"] });
    let second = client.ask("tools/list", cursor.clone()).await["result"].clone();
    let mut all = first["tools"].as_array().unwrap().clone();
    all.extend(second["tools"].as_array().unwrap().iter().cloned());
    assert_eq!(all, tools);
    assert!(second.get("nextCursor").is_none());

    let side = a.side(1).await;
    side.edit(|script| drop(script.tools.remove(0)));
    side.inject(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
        .await;
    client.received("notifications/tools/list_changed").await;
    let refused = client.ask("tools/list", cursor).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("list again")
    );
}

/// The time that is left for caching is another with each answer, and the list itself is not written and charged again for it.
#[tokio::test]
async fn unread_answers_share_a_list_whatever_is_left_of_its_time() {
    const LENGTH: usize = 512 * 1024;
    const ANSWERS: usize = 16;
    let tool =
        json!({ "name": "long", "description": "x".repeat(LENGTH), "inputSchema": { "type": "object" } });
    let server = Memory::new(Script {
        builtin_tools: false,
        tools: vec![tool],
        ..keeping(Speaks::Modern, 3_600_000, false)
    });
    let builder = Gateway::builder(Fleet::builder()).max_held_per_client(4 * LENGTH);
    let gateway = started(builder, &[("a", &server)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    let mut asked = Vec::new();
    for _ in 0..ANSWERS {
        let params = json!({ "_meta": modern(&json!({})) });
        asked.push(client.begin("tools/list", params).await);
        next_millisecond().await;
    }
    for id in asked {
        let answer = client.answer(id).await;
        let list = &answer["result"];
        assert!(list["ttlMs"].as_u64() > Some(0), "{}", answer["error"]);
        assert_eq!(list["tools"][0]["name"], "long");
    }
}

/// Lets the gateway run until the clock shows another millisecond.
async fn next_millisecond() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let before = now();
    while now() <= before {
        tokio::task::yield_now().await;
    }
}
