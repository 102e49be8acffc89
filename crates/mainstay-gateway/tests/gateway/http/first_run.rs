//! A client that meets one server for the first time, at the server's own address.

use mainstay::{Fleet, ServerConfig};
use mainstay_gateway::{Gateway, HttpDoor};
use mainstay_testkit::client::Ask;
use mainstay_testkit::{Script, Speaks};
use serde_json::json;

use crate::http::support::{Memory, World, initialize, modern};

#[tokio::test(start_paused = true)]
async fn a_server_shows_its_own_name_and_version_at_its_own_address_in_both_eras() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let script = Script {
            name: "itself".to_owned(),
            speaks,
            ..Script::default()
        };
        let config = ServerConfig::custom("my server", "one", Memory::new(script));
        let gateway = Gateway::start(Fleet::builder(), [config.build().unwrap()]);
        let world = World::serving(HttpDoor::new(), gateway);
        let greeting = Ask::post("/mcp/my%20server", &initialize(json!({})));
        let reply = world.send(greeting).await;
        assert!(reply.header("mcp-session-id").is_some());
        let about = reply.json().await;
        let info = &about["result"]["serverInfo"];
        assert_eq!(info["name"], "itself", "{about}");
        assert!(info["version"].is_string(), "{about}");
        let discovered = world
            .send(modern("/mcp/my%20server", 1, "server/discover", json!({})))
            .await
            .json()
            .await;
        let meta = &discovered["result"]["_meta"];
        assert_eq!(&meta["io.modelcontextprotocol/serverInfo"], info, "{discovered}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_did_not_start_is_an_answer_that_says_why_and_no_session() {
    let server = Memory::new(Script::new());
    server.set_down(true);
    let config = ServerConfig::custom("one", "one", server);
    let gateway = Gateway::start(Fleet::builder(), [config.build().unwrap()]);
    let world = World::serving(HttpDoor::new(), gateway);
    for ask in [
        Ask::post("/mcp/one", &initialize(json!({}))),
        modern("/mcp/one", 1, "server/discover", json!({})),
        modern("/mcp/one", 1, "tools/list", json!({})),
    ] {
        let reply = world.send(ask).await;
        assert_eq!(reply.status, 200, "clients show no words of a refusal");
        assert_eq!(reply.header("mcp-session-id"), None);
        let answer = reply.json().await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Server one did not start"), "{answer}");
        assert!(message.contains("connection refused"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_that_encodes_a_slash_or_no_text_is_refused() {
    let world = World::open(HttpDoor::new()).await;
    for (path, status) in [
        ("/mcp/%6fne", 200),
        ("/mcp/o%2Fne", 400),
        ("/mcp/one%00", 400),
        ("/mcp/%ff", 400),
        ("/mcp/one%20", 404),
    ] {
        let reply = world.send(Ask::post(path, &initialize(json!({})))).await;
        assert_eq!(reply.status, status, "{path}");
    }
}
