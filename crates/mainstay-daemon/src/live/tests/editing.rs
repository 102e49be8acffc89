//! What the control API answers when it is to change a configuration file.

use std::collections::BTreeSet;
use std::fs;

use crate::live::LiveStart;
use mainstay::{Configuration, Fleet};
use mainstay_control::Controlled as _;
use mainstay_control::api::{ApiProblem, EntryDocument};
use mainstay_gateway::Gateway;
use serde_json::json;

fn entry(name: &str, entry: &serde_json::Value) -> EntryDocument {
    EntryDocument {
        name: name.to_owned(),
        entry: entry.as_object().unwrap().clone(),
    }
}

#[tokio::test]
async fn an_edit_that_the_file_or_the_entry_does_not_allow_is_the_caller_s_error_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mcp.json");
    let written = r#"{ "mcpServers": { "one": { "command": "cat", "enabled": false } } }"#;
    fs::write(&file, written).unwrap();
    let configuration = Configuration::load(&file).unwrap();
    let start = LiveStart::of_file(&file, configuration.servers, BTreeSet::new(), Vec::new(), None);
    let gateway = Gateway::start(Fleet::builder(), start.servers());
    let live = start.follow(gateway.clone(), None, |_| {});
    let good = json!({ "command": "cat", "enabled": false });

    let status = |answer: Result<_, ApiProblem>| answer.map(drop).expect_err("refused").status;
    assert_eq!(status(live.add(entry("one", &good)).await), 409);
    assert_eq!(status(live.remove("two").await), 404);
    assert_eq!(
        status(live.add(entry("two", &json!({ "command": 7 }))).await),
        422
    );
    let changes = json!({ "command": null });
    assert_eq!(status(live.change(entry("one", &changes)).await), 422);
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
    // A file that another program has left broken cannot be edited.
    fs::write(&file, "{ \"mcpServers\": { half").unwrap();
    let refused = live.add(entry("two", &good)).await.expect_err("refused");
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.title.contains("mcp.json:1:"), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ \"mcpServers\": { half");
    assert_eq!(gateway.fleet().servers().len(), 1);
}

#[tokio::test]
async fn an_edit_after_which_the_file_would_be_refused_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mcp.json");
    let fine = json!({ "command": "/nowhere/cat" });
    // This process does not have the variable.
    let lacking = json!({ "command": "/nowhere/cat", "env": { "T": "${MAINSTAY_TEST_NOT_SET}" } });
    let configured = |servers: serde_json::Value| json!({ "mcpServers": servers }).to_string();
    fs::write(&file, configured(json!({ "one": fine, "lacking": lacking }))).unwrap();
    let read = Configuration::load(&file).unwrap();
    let start = LiveStart::of_file(&file, read.servers, read.refused, read.problems, None);
    let gateway = Gateway::start(Fleet::builder(), start.servers());
    let live = start.follow(gateway.clone(), None, |_| {});
    let text = || fs::read_to_string(&file).unwrap();

    let before = text();
    for _ in 0..2 {
        let refused = live.add(entry("two", &lacking)).await.expect_err("not applied");
        assert_eq!(refused.status, 422, "{refused:?}");
        assert_eq!(refused.problems.len(), 1, "{refused:?}");
        let problem = &refused.problems[0];
        assert!(problem.message.contains("MAINSTAY_TEST_NOT_SET"), "{problem:?}");
        assert_eq!((problem.server.as_deref(), problem.line), (Some("two"), None));
        assert_eq!(text(), before);
    }
    let changes = json!({ "args": ["${MAINSTAY_TEST_NOT_SET}"] });
    let refused = live
        .change(entry("one", &changes))
        .await
        .expect_err("not applied");
    assert_eq!((refused.status, text()), (422, before));

    // A server that had its error before keeps no change from being made, not even one of itself.
    live.add(entry("two", &fine)).await.expect("applied");
    let slower = json!({ "call_timeout": "2m" });
    live.change(entry("lacking", &slower)).await.expect("applied");
    assert_eq!(gateway.fleet().servers().len(), 3);

    // Another program left an error in the file, so that the file as a whole is refused until that is corrected.
    let broken = configured(json!({ "one": fine, "lacking": lacking, "two": { "command": 7 } }));
    fs::write(&file, &broken).unwrap();
    let refused = live.remove("one").await.expect_err("not applied");
    assert_eq!((refused.status, text()), (422, broken));
    live.change(entry("two", &fine)).await.expect("applied");
    live.remove("one").await.expect("applied");
    assert_eq!(gateway.fleet().servers().len(), 2);
}
