use std::fs;

use serde_json::json;

use crate::sandbox::{MAINSTAY, Sandbox, dying, good, keys, shell};

#[test]
fn everything_offered_is_listed_under_its_public_name() {
    let ran = Sandbox::new().run(&["tools"]);
    ran.exits(0)
        .prints("demo__add ")
        .prints("read-only    Returns the sum of two numbers.")
        .prints("demo__crash ")
        .prints("destructive  Ends the server's process")
        .prints("prompt    demo__summarize")
        .prints("resource  demo://about")
        .prints("template  demo://square/{number}");
}

#[test]
fn one_server_can_be_singled_out_and_no_other_is_started() {
    let sandbox = Sandbox::new();
    let started = sandbox.path("started");
    let other = shell(&format!("touch '{}'; exit 1", started.display()));
    let config = json!({ "mcpServers": { "good": good(), "other": other } });
    sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
    sandbox
        .run(&["tools", "--server", "good"])
        .exits(0)
        .prints("good__echo");
    assert!(!started.exists());
    sandbox
        .run(&["tools", "--server", "god"])
        .exits(2)
        .says("there is no server \"god\"; did you mean \"good\"?");
    sandbox
        .run(&["tools", "--server", "xyz"])
        .exits(2)
        .says("there is: good, other");
}

#[test]
fn a_server_that_does_not_come_up_is_shown_as_it_was_and_marked_stale() {
    let sandbox = Sandbox::new();
    let alive = sandbox.write("alive", "");
    let script = format!(
        "test -e '{}' && exec '{MAINSTAY}' demo-server; exit 3",
        alive.display()
    );
    let config = json!({ "mcpServers": { "sometimes": shell(&script) } });
    sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());

    let fresh = sandbox.run(&["tools"]);
    fresh.exits(0).prints("sometimes__echo");
    assert!(!fresh.stdout.contains("stale"));

    fs::remove_file(&alive).unwrap();
    sandbox
        .run(&["tools"])
        .exits(0)
        .prints("sometimes  stale: listed ")
        .prints("sometimes__echo");
    let document = sandbox.run(&["tools", "--json"]).exits(0).json();
    assert_eq!(document["tools"][0]["stale"], true);
    assert_eq!(document["servers"][0]["stale"], true);

    let forgetful = sandbox.run(&["tools", "--no-cache"]);
    forgetful
        .exits(1)
        .says("server sometimes is reconnecting")
        .says("exit status 3");
    assert_eq!(forgetful.stdout, "");
}

#[test]
fn the_cache_is_where_the_variable_says() {
    let sandbox = Sandbox::new();
    let cache = sandbox.path("elsewhere");
    let child = sandbox
        .command(&["tools"])
        .env("MAINSTAY_CACHE", &cache)
        .spawn()
        .unwrap();
    crate::sandbox::finish(child).exits(0);
    assert!(fs::read_dir(&cache).unwrap().next().is_some());
    assert!(!sandbox.path("home/.cache").exists());
}

#[test]
fn json_has_the_documented_keys_in_the_same_order_every_time() {
    let sandbox = Sandbox::with(&json!({ "b": good(), "a": good(), "dying": dying() }));
    let document = sandbox.run(&["tools", "--json"]).exits(1).json();
    assert_eq!(
        keys(&document),
        [
            "configuration",
            "prompts",
            "resources",
            "servers",
            "templates",
            "tools",
            "version"
        ]
    );
    assert_eq!(document["version"], 1);
    let offer = ["definition", "name", "original", "server", "stale"];
    let tool = &document["tools"][0];
    assert_eq!(
        keys(tool),
        ["definition", "hints", "name", "original", "server", "stale"]
    );
    assert_eq!(
        keys(&tool["hints"]),
        ["destructive", "idempotent", "open_world", "read_only"]
    );
    assert_eq!(keys(&document["prompts"][0]), offer);
    assert_eq!(keys(&document["resources"][0]), offer);
    assert_eq!(tool["name"], "a__add");
    assert_eq!(tool["definition"]["name"], "a__add");
    assert_eq!(tool["original"], "add");
    assert_eq!(tool["hints"]["read_only"], true);

    let again = sandbox.run(&["tools", "--json"]).exits(1).json();
    assert_eq!(document["tools"], again["tools"]);
}
