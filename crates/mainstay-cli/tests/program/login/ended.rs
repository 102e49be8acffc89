//! Logins that end while a daemon uses them, and tokens that a server refuses.

use std::fs;
use std::time::SystemTime;

use mainstay_login::{FileStore, LoginStore as _, StoreProtection, StoredLogin};
use mainstay_testkit::Script;
use mainstay_testkit::http::{FaultyHttpProcess, HttpFault, HttpScript, HttpStep};
use serde_json::{Value, json};

use crate::daemon::{Shared, wait_until};
use crate::host::Host;
use crate::sandbox::Sandbox;

/// Keeps a login with this token, as another process of the user does.
fn log_in(sandbox: &Sandbox, server: &str, token: &str) {
    keep(sandbox, server, token, None, None);
}

/// Keeps a login, which has ended for this reason if there is one.
fn keep(sandbox: &Sandbox, server: &str, token: &str, refresh_token: Option<&str>, ended: Option<&str>) {
    let directory = sandbox.path("home/.local/state/mainstay/logins");
    fs::create_dir_all(directory.parent().unwrap()).unwrap();
    let store = FileStore::open(&directory, StoreProtection::Plain).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let login: StoredLogin = serde_json::from_value(json!({
        "version": 1,
        "id": token,
        "record": {
            "version": 1,
            "server": server,
            "issuer": "https://login.example",
            "token_endpoint": "https://login.example/token",
            "access_token": token,
            "refresh_token": refresh_token,
            "method": "none",
        },
        "logged_in_at": now.as_millis(),
        "obtained_at": now.as_millis(),
        "ended": ended,
    }))
    .unwrap();
    store.replace(&login, None).unwrap();
}

#[test]
fn a_login_is_said_to_be_renewed_by_itself_only_if_it_can_be() {
    let url = |name: &str| format!("https://{name}.example/mcp");
    let servers = ["kept", "ends", "over"].map(|name| (name.to_owned(), json!({ "url": url(name) })));
    let sandbox = Sandbox::with(&Value::Object(servers.into_iter().collect()));
    keep(&sandbox, &url("kept"), "good", Some("again"), None);
    keep(&sandbox, &url("ends"), "good", None, None);
    // Its refresh token is of no use any more.
    keep(&sandbox, &url("over"), "good", Some("again"), Some("revoked"));
    let status = sandbox.run(&["auth", "status"]);
    let lines = [
        "kept: logged in at https://login.example, renewed by itself",
        "ends: logged in at https://login.example",
        "over: the login at https://login.example has ended (revoked); run `mainstay login over`",
    ];
    let mut said: Vec<_> = status.exits(0).stdout.lines().collect();
    said.sort_unstable();
    let mut expected = lines;
    expected.sort_unstable();
    assert_eq!(said, expected);
}

#[test]
fn a_call_that_needs_more_rights_names_the_login_that_asks_for_them() {
    let http = HttpScript::new().on(
        "tools/call",
        HttpFault::insufficient_scope("files:write files:read"),
    );
    let remote = FaultyHttpProcess::start(0, &Script::new(), &http);
    let sandbox = Sandbox::with(&json!({ "web": { "url": remote.url("/mcp") } }));
    let call = || sandbox.run(&["call", "web", "echo"]);
    // Without a login the server says which scopes it wants at all.
    call()
        .exits(3)
        .says("  run `mainstay login web`, then try again\n");
    log_in(&sandbox, &remote.url("/mcp"), "good");
    call()
        .exits(3)
        .says("  run `mainstay login web --scope files:write --scope files:read`, then try again\n");
}

/// What the daemon says of its server `web`.
fn web(shared: &Shared) -> Value {
    let document = shared.sandbox.run(&["status", "--json"]).json();
    document["servers"][0].clone()
}

/// What a host says first.
fn introduction() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "host", "version": "1" },
    })
}

fn asks_for_login(shared: &Shared) -> bool {
    web(shared)["reason"] == "auth_required"
}

#[test]
fn a_logout_reaches_the_daemon_which_lets_running_calls_end_and_uses_the_token_no_more() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new().bearer("good"));
    let shared = Shared::new();
    let sandbox = &shared.sandbox;
    sandbox.configure(&json!({ "web": { "url": remote.url("/mcp") } }));
    log_in(sandbox, &remote.url("/mcp"), "good");
    let mut host = Host::start(sandbox, &["connect", "web"]);
    let said = host.call("echo", &json!({ "text": "in" }));
    assert_ne!(said["isError"], true, "{said}");

    let running = host.begin_call("sleep_ms", &json!({ "ms": 4000 }));
    wait_until("the call runs", || web(&shared)["calls"]["in_flight"] == 1);
    sandbox.run(&["logout", "web"]).exits(0);
    wait_until("the daemon asks for a login", || asks_for_login(&shared));
    let ended = host.answer(running);
    assert!(ended["result"]["content"].is_array(), "{ended}");
    assert_ne!(ended["result"]["isError"], true, "{ended}");

    // What fails now names the command that helps.
    let refused = host.call("echo", &json!({ "text": "out" }));
    let words = refused["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        words,
        "Server web asks for a login with the scopes mcp (disconnected). The call did not run. A person must log in to the \
         server (`mainstay login web`); until then it cannot be called."
    );
    sandbox
        .run(&["call", "web", "echo", "text=out"])
        .exits(3)
        .says("mainstay login web");

    log_in(sandbox, &remote.url("/mcp"), "good");
    wait_until("the server is back", || web(&shared)["state"] == "connected");
    let said = host.call("echo", &json!({ "text": "in again" }));
    assert_ne!(said["isError"], true, "{said}");
}

#[test]
fn a_call_to_a_server_that_was_never_listed_names_the_command_to_log_in_with() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new().bearer("good"));
    let shared = Shared::new();
    let sandbox = &shared.sandbox;
    sandbox.configure(&json!({
        "my $(web)": { "url": remote.url("/mcp") },
        "fixed": { "url": remote.url("/mcp"), "headers": { "Authorization": "Bearer other" } },
    }));
    sandbox.run(&["daemon", "start"]).exits(0);
    sandbox
        .run(&["call", "my $(web)", "echo"])
        .says("`mainstay login 'my $(web)'`");
    // A login cannot help where the configuration has a token.
    let fixed = sandbox.run(&["call", "fixed", "echo"]);
    fixed.says("refused the token that it was shown");
    assert!(!fixed.stderr.contains("mainstay login"), "{}", fixed.stderr);
    let fixed = sandbox.run(&["check", "--server", "fixed"]);
    assert!(!fixed.stdout.contains("mainstay login"), "{}", fixed.stdout);
    // A server of a host is in no configuration: its address names it.
    let url = remote.url("/mcp");
    let mut host = Host::silent(sandbox, &["connect", "--url", &url]);
    let refused = host.ask("initialize", &introduction());
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains(&format!("`mainstay login {url}`")), "{words}");
}

#[test]
fn a_login_is_advised_only_to_servers_that_take_one() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new().bearer("good"));
    let url = remote.url("/mcp");
    let shared = Shared::new();
    let sandbox = &shared.sandbox;
    let servers = json!({
        "open": { "url": url },
        "fixed": { "url": url, "headers": { "Authorization": "Bearer other" } },
        "off": { "url": url, "oauth": false },
    });
    let file = sandbox.write(
        "elsewhere/servers.json",
        &json!({ "mcpServers": servers }).to_string(),
    );
    let file = file.to_str().unwrap();
    sandbox.run(&["daemon", "start", "--config", file]).exits(0);
    wait_until("all ask for a login", || {
        let document = sandbox.run(&["status", "--json"]).json();
        let servers = document["servers"].as_array().unwrap();
        servers.iter().all(|server| server["reason"] == "auth_required")
    });
    let document = sandbox.run(&["status", "--json"]).json();
    for server in document["servers"].as_array().unwrap() {
        let is_tried_again = server["next_retry_ms"].is_u64();
        assert_eq!(is_tried_again, server["name"] == "fixed", "{server}");
    }
    let status = sandbox.run(&["status"]);
    status
        .prints("`mainstay login open`")
        .prints("it is tried again in")
        .prints("the token of the configuration was refused: replace it")
        .prints("give it a token in the configuration, which turns logins off");
    for wrong in ["mainstay login fixed", "mainstay login off"] {
        assert!(!status.stdout.contains(wrong), "{}", status.stdout);
    }
    // The daemon's file is the one that is meant.
    let login = sandbox.run(&["login", "fixed"]);
    login.exits(2).says("remove it first");
    let mut host = Host::silent(sandbox, &["connect", "fixed"]);
    let words = host.ask("initialize", &introduction()).to_string();
    assert!(
        words.contains("refused the token of its configuration"),
        "{words}"
    );
    assert!(!words.contains("log in"), "{words}");
    drop(host);
    sandbox.run(&["daemon", "stop"]).exits(0);

    // Without a daemon, the command names the file.
    let check = sandbox.run(&["check", "--config", file]);
    check.prints(&format!("mainstay login open --config {file}"));
    sandbox
        .run(&["call", "open", "echo", "--config", file])
        .says(&format!("`mainstay login open --config {file}`"));
    sandbox
        .run(&["login", "fixed", "--config", file])
        .exits(2)
        .says("remove it first");
}

#[test]
fn a_token_that_the_server_refuses_is_told_apart_from_a_missing_login() {
    let challenge = r#"Bearer error="invalid_token""#;
    let refusal = HttpFault::Status {
        code: 401,
        headers: vec![("WWW-Authenticate".to_owned(), challenge.to_owned())],
        body: String::new(),
    };
    let refusing = HttpScript::new().at(HttpStep::Post, refusal);
    let remote = FaultyHttpProcess::start(0, &Script::new(), &refusing);
    let shared = Shared::new();
    let sandbox = &shared.sandbox;
    sandbox.configure(&json!({ "web": { "url": remote.url("/mcp") } }));
    log_in(sandbox, &remote.url("/mcp"), "good");
    sandbox.run(&["daemon", "start"]).exits(0);
    wait_until("the server asks for a login", || asks_for_login(&shared));
    let refused = "the server refused the token that it was shown (status 401, invalid_token)";
    let cause = web(&shared)["last_failure"]["message"].clone();
    assert!(cause.as_str().unwrap().contains(refused), "{cause}");
    let auth = || sandbox.run(&["auth", "status"]).stdout;
    wait_until("the refusal is kept", || {
        auth().contains(", but the server refused this token (invalid_token); run `mainstay login web`")
    });
    let document = super::status(sandbox);
    assert_eq!(document["logins"][0]["state"], "logged_in");
    assert_eq!(
        document["logins"][0]["error"],
        "the server refused the token (invalid_token)"
    );

    // A server that accepts the token after all has the last word.
    let port = remote.port();
    drop(remote);
    let _accepting = FaultyHttpProcess::start(port, &Script::new(), &HttpScript::new().bearer("good"));
    sandbox.run(&["restart", "web"]).exits(0);
    wait_until("the server is back", || web(&shared)["state"] == "connected");
    wait_until("the refusal is forgotten", || !auth().contains("refused"));
}
