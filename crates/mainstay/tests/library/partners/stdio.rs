//! Over stdio: each server is connected, listed and called, killed, and called again with nobody's help.

use std::path::Path;
use std::sync::{Arc, Mutex};

use mainstay::config::{ServerBuilder, StdioTarget};
use mainstay::handler::{Answer, ClientCapabilities, ServerRequest};
use mainstay::{
    CallOptions, ClientHandler, Era, Fleet, Outcome, RawJson, Reply, RpcError, Server, ServerConfig,
    StateKind,
};
use mainstay_partner::{Partner, Partners, partners};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::partners::LONG;

/// One visit to a partner: what to call, and what the answer must hold.
struct Visit {
    tool: &'static str,
    arguments: Value,
    answer: &'static str,
    era: Era,
}

#[tokio::test]
async fn the_everything_server_is_back_after_its_death() {
    let Some(Partners { everything, .. }) = partners() else {
        return;
    };
    let visit = Visit {
        tool: "echo",
        arguments: json!({ "message": "still here" }),
        answer: "still here",
        era: Era::Legacy,
    };
    outlives_its_death(configured(&everything), visit).await;
}

#[tokio::test]
async fn the_filesystem_server_is_back_after_its_death() {
    let Some(Partners { filesystem, .. }) = partners() else {
        return;
    };
    let visit = Visit {
        tool: "read_text_file",
        arguments: json!({ "path": Path::new(last(&filesystem)).join("hello.txt") }),
        answer: "hello",
        era: Era::Legacy,
    };
    outlives_its_death(configured(&filesystem), visit).await;
}

#[tokio::test]
async fn the_memory_server_is_back_after_its_death() {
    let Some(Partners { memory, .. }) = partners() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let graph = directory.path().join("graph.jsonl");
    let entity =
        json!({ "type": "entity", "name": "Mainstay", "entityType": "rope", "observations": ["holds"] });
    std::fs::write(&graph, format!("{entity}\n")).unwrap();
    let visit = Visit {
        tool: "read_graph",
        arguments: json!({}),
        answer: "holds",
        era: Era::Legacy,
    };
    let config = configured(&memory).env("MEMORY_FILE_PATH", graph.display().to_string());
    outlives_its_death(config, visit).await;
}

#[tokio::test]
async fn the_time_server_is_back_after_its_death_in_either_era() {
    let Some(Partners { time, .. }) = partners() else {
        return;
    };
    let visit = |era| Visit {
        tool: "convert_time",
        arguments: json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" }),
        answer: "21:00",
        era,
    };
    outlives_its_death(configured(&time).era(Era::Modern), visit(Era::Modern)).await;
    outlives_its_death(configured(&time), visit(Era::Legacy)).await;
}

#[tokio::test]
async fn the_git_server_is_back_after_its_death_in_either_era() {
    let Some(Partners { git, .. }) = partners() else {
        return;
    };
    let visit = |era| Visit {
        tool: "git_log",
        arguments: json!({ "repo_path": last(&git) }),
        answer: "A first commit",
        era,
    };
    outlives_its_death(configured(&git).era(Era::Modern), visit(Era::Modern)).await;
    outlives_its_death(configured(&git), visit(Era::Legacy)).await;
}

#[tokio::test]
async fn the_rmcp_server_is_back_after_its_death() {
    let Some(Partners { rmcp, .. }) = partners() else {
        return;
    };
    let visit = Visit {
        tool: "echo",
        arguments: json!({ "text": "still here" }),
        answer: "still here",
        era: Era::Legacy,
    };
    outlives_its_death(configured(&rmcp), visit).await;
}

async fn outlives_its_death(config: ServerBuilder<StdioTarget>, visit: Visit) {
    let (fleet, server) = connected(Fleet::builder().start([config.build().unwrap()])).await;
    let first = server.status();
    let (era, version) = first.protocol.clone().unwrap();
    assert_eq!(era, visit.era, "{version}");
    let tool = format!("partner__{}", visit.tool);
    assert!(
        fleet.catalog().tool(&tool).is_some(),
        "{:?}",
        fleet.catalog().tools()
    );
    pays(&fleet, &tool, &visit).await;

    let pid = Pid::from_raw(first.pid.unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let second = server
        .wait_until(LONG, |now| {
            now.state == StateKind::Connected && now.generation > first.generation
        })
        .await
        .unwrap_or_else(|| panic!("{:?}", server.status()));
    assert_ne!(second.pid, first.pid);
    assert_eq!(
        (second.starts, second.protocol),
        (first.starts + 1, first.protocol)
    );
    let failure = second.last_error.unwrap();
    assert_eq!(
        failure.exit.and_then(|exit| exit.signal),
        Some(Signal::KILL.as_raw())
    );
    pays(&fleet, &tool, &visit).await;
    let report = fleet.close(LONG).await;
    assert_eq!(report.killed().count(), 0, "{report:?}");
}

async fn pays(fleet: &Fleet, tool: &str, visit: &Visit) {
    let options = CallOptions::default().timeout(LONG);
    let reply = fleet.call(tool, &visit.arguments).options(options).await.unwrap();
    assert!(reply.result.as_str().contains(visit.answer), "{}", reply.result);
}

#[tokio::test]
async fn a_call_to_the_everything_server_reports_its_progress() {
    let Some(Partners { everything, .. }) = partners() else {
        return;
    };
    let (fleet, server) = connected(Fleet::builder().start([configured(&everything).build().unwrap()])).await;
    let (to, mut progress) = mpsc::channel(16);
    let arguments = json!({ "duration": 0.3, "steps": 3 });
    let options = CallOptions::default().timeout(LONG).progress(to);
    server
        .call("trigger-long-running-operation", &arguments)
        .options(options)
        .await
        .unwrap();
    let mut steps = Vec::new();
    while let Ok(step) = progress.try_recv() {
        steps.push(step.parse::<Value>().unwrap()["progress"].clone());
    }
    assert_eq!(steps, [1, 2, 3]);
    fleet.close(LONG).await;
}

#[tokio::test]
async fn the_everything_server_offers_prompts_resources_templates_and_completions() {
    let Some(Partners { everything, .. }) = partners() else {
        return;
    };
    let (fleet, server) = connected(Fleet::builder().start([configured(&everything).build().unwrap()])).await;
    let options = || CallOptions::default().timeout(LONG);

    let catalog = fleet.catalog();
    assert!(
        catalog.prompt("partner__completable-prompt").is_some(),
        "{:?}",
        catalog.prompts()
    );
    let arguments = json!({ "department": "Sales", "name": "Eve" });
    let prompt = server
        .prompt("completable-prompt", &arguments)
        .options(options())
        .await
        .unwrap();
    assert!(
        prompt
            .result
            .as_str()
            .contains("promote Eve to the head of the Sales team"),
        "{prompt:?}"
    );

    let reference = json!({ "type": "ref/prompt", "name": "completable-prompt" });
    let argument = json!({ "name": "department", "value": "S" });
    let completed = server
        .complete(&reference, &argument)
        .options(options())
        .await
        .unwrap();
    assert_eq!(
        read(&completed)["completion"]["values"],
        json!(["Sales", "Support"])
    );

    assert!(!catalog.resources().is_empty());
    assert!(
        catalog
            .template("demo://resource/dynamic/text/{resourceId}")
            .is_some(),
        "{:?}",
        catalog.templates()
    );
    let resource = server
        .read_resource("demo://resource/dynamic/text/7")
        .options(options())
        .await
        .unwrap();
    assert!(resource.result.as_str().contains("Resource 7"), "{resource:?}");
    fleet.close(LONG).await;
}

#[tokio::test]
async fn what_the_everything_server_asks_is_answered_by_the_handler() {
    let Some(Partners { everything, .. }) = partners() else {
        return;
    };
    let person = Arc::new(Person::default());
    let fleet = Fleet::builder()
        .handler(person.clone())
        .start([configured(&everything).build().unwrap()]);
    let (fleet, server) = connected(fleet).await;
    let options = || CallOptions::default().timeout(LONG);

    let sampled = server
        .call("trigger-sampling-request", &json!({ "prompt": "what is it?" }))
        .options(options())
        .await;
    let sampled = sampled.unwrap();
    assert!(sampled.result.as_str().contains("forty-two"), "{sampled:?}");
    let elicited = server
        .call("trigger-elicitation-request", &json!({}))
        .options(options())
        .await
        .unwrap();
    assert!(elicited.result.as_str().contains("Ada Lovelace"), "{elicited:?}");
    let asked = person.asked.lock().unwrap().clone();
    assert!(
        asked.iter().any(|method| method == "sampling/createMessage"),
        "{asked:?}"
    );
    assert!(
        asked.iter().any(|method| method == "elicitation/create"),
        "{asked:?}"
    );
    fleet.close(LONG).await;
}

#[tokio::test]
async fn an_error_of_a_real_server_costs_it_nothing() {
    let Some(Partners { everything, time, .. }) = partners() else {
        return;
    };
    for partner in [everything, time] {
        let (fleet, server) =
            connected(Fleet::builder().start([configured(&partner).build().unwrap()])).await;
        let before = server.status().generation;
        for _ in 0..5 {
            let options = CallOptions::default().timeout(LONG);
            // Some SDKs answer so with an error, others with a result that says so.
            match server.call("no-such-tool", &json!({})).options(options).await {
                Ok(reply) => assert_eq!(read(&reply)["isError"], true),
                Err(error) => assert_eq!(error.outcome(), Outcome::Answered, "{error}"),
            }
        }
        assert_eq!(server.status().generation, before);
        fleet.close(LONG).await;
    }
}

#[tokio::test]
async fn a_tool_that_a_real_server_adds_is_in_the_catalog() {
    let Some(Partners { rmcp, .. }) = partners() else {
        return;
    };
    for config in [configured(&rmcp).era(Era::Modern), configured(&rmcp)] {
        let (fleet, server) = connected(Fleet::builder().start([config.build().unwrap()])).await;
        let mut reader = fleet.catalog_reader();
        assert!(reader.load().tool("partner__extra").is_none());
        server.call("toggle", &json!({})).timeout(LONG).await.unwrap();
        let added = async {
            while reader.load().tool("partner__extra").is_none() {
                reader.changed().await;
            }
        };
        tokio::time::timeout(LONG, added)
            .await
            .expect("the new tool is listed");
        fleet.close(LONG).await;
    }
}

async fn connected(fleet: Fleet) -> (Fleet, Server) {
    let server = fleet.server("partner").unwrap();
    server.wait_connected(LONG).await.unwrap();
    (fleet, server)
}

fn configured(partner: &Partner) -> ServerBuilder<StdioTarget> {
    let command = partner.command.display().to_string();
    with_environment(
        ServerConfig::stdio("partner", command).args(partner.args.iter().map(String::as_str)),
        partner,
    )
}

fn with_environment(config: ServerBuilder<StdioTarget>, partner: &Partner) -> ServerBuilder<StdioTarget> {
    let env = partner.env.iter();
    env.fold(config, |config, (key, value)| config.env(key, value.as_str()))
}

fn last(partner: &Partner) -> &str {
    partner.args.last().expect("it has arguments")
}

fn read(reply: &Reply) -> Value {
    reply.result.parse().expect("a result is JSON")
}

/// Somebody who answers whatever is asked.
#[derive(Default)]
struct Person {
    asked: Mutex<Vec<String>>,
}

impl ClientHandler for Person {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            sampling: true,
            elicitation: true,
            roots: true,
            ..ClientCapabilities::default()
        }
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        let text = json!({ "type": "text", "text": "forty-two" });
        let answer = match request.method.as_str() {
            "sampling/createMessage" => json!({ "role": "assistant", "model": "a person", "content": text }),
            "elicitation/create" => {
                json!({ "action": "accept", "content": { "name": "Ada Lovelace", "check": true } })
            }
            "roots/list" => json!({ "roots": [] }),
            _ => Value::Null,
        };
        self.asked.lock().unwrap().push(request.method);
        Box::pin(async move {
            if answer.is_null() {
                return Err(RpcError::new(-32601, "nobody answers this"));
            }
            Ok(RawJson::from_value(&answer).expect("a value can be written"))
        })
    }
}
