//! What the control API answers when it is to change a configuration file.

use std::collections::BTreeSet;
use std::fs;

use mainstay::{Configuration, Fleet};
use mainstay_control::Controlled as _;
use mainstay_control::api::{ApiProblem, EntryDocument};
use mainstay_daemon::live::LiveStart;
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
