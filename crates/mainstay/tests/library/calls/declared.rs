//! What a server says that it cannot answer it is not asked, unless the caller passes a request on as it is.

use mainstay::gateway::ServerExt;
use mainstay::{CallErrorKind, CallOptions, Outcome};
use mainstay_testkit::{Script, Speaks};
use serde_json::{Value, json};

use mainstay_testkit::fleet::{Memory, connected, fleet_of};

fn declaring(capabilities: Value, version: Option<&str>) -> Script {
    Script {
        capabilities: Some(capabilities),
        version: version.map(str::to_owned),
        ..Script::new()
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_not_asked_for_what_it_does_not_declare() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let memory = Memory::new(declaring(json!({ "tools": {} }), None).speaks(speaks));
        let (_fleet, server) = fleet_of(memory.config("s"));
        connected(&server).await;
        let options = CallOptions::default;
        let (reference, argument) = (json!({ "type": "ref/prompt", "name": "greet" }), json!({}));
        let refused = [
            (
                "prompts",
                server.prompt("greet", &json!({})).options(options()).await,
            ),
            (
                "resources",
                server.read_resource("memo:a").options(options()).await,
            ),
            (
                "completions",
                server.complete(&reference, &argument).options(options()).await,
            ),
        ];
        for (missing, refused) in refused {
            let error = refused.expect_err(missing);
            assert!(
                matches!(&error.kind, CallErrorKind::NotOffered { capability, .. } if *capability == missing),
                "{error}"
            );
            assert_eq!(error.outcome(), Outcome::NotSent);
        }
        let side = memory.side(1).await;
        for method in ["prompts/get", "resources/read", "completion/complete"] {
            assert_eq!(side.count(method), 0, "{method}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_passed_on_reaches_a_server_that_answers_without_declaring_it() {
    let memory = Memory::new(declaring(json!({ "tools": {} }), None));
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let params = mainstay::RawJson::from_value(&json!({ "name": "greet", "arguments": { "who": "Ada" } }));
    let reply = server
        .forward("prompts/get", params.ok(), CallOptions::default())
        .await;
    assert!(reply.expect("answered").result.as_str().contains("Ada"));
}

#[tokio::test(start_paused = true)]
async fn a_server_of_a_time_when_servers_did_not_declare_it_is_asked() {
    let (reference, argument) = (json!({ "type": "ref/prompt", "name": "greet" }), json!({}));
    for (capabilities, version) in [(json!({ "prompts": {} }), Some("2024-11-05")), (json!({}), None)] {
        let memory = Memory::new(declaring(capabilities, version));
        let (_fleet, server) = fleet_of(memory.config("s"));
        connected(&server).await;
        let asked = server.complete(&reference, &argument).await;
        assert!(
            !matches!(&asked, Err(error) if matches!(error.kind, CallErrorKind::NotOffered { .. })),
            "{asked:?}"
        );
        assert_eq!(memory.side(1).await.count("completion/complete"), 1);
    }
}
