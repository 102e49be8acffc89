//! A client keeps its session, its tools and its answers whatever becomes of the servers behind the gateway.

use std::net::SocketAddr;
use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

use mainstay_testkit::poll;
use serde_json::{Value, json};

use crate::behind::Behind;
use crate::host::Host;
use crate::sandbox::Sandbox;
use crate::serving::{LONG, Serving, Visitor};

/// How long a server is away.
const OUTAGE: Duration = Duration::from_secs(3);

/// When a call comes that meets a server known to be away.
const LATER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
enum Loss {
    /// It is killed, and back as soon as it can be.
    Killed,
    /// It is killed, and back after a while.
    Away,
}

impl Loss {
    const ALL: [Self; 2] = [Self::Killed, Self::Away];

    fn begin(self, server: &mut Behind) {
        match self {
            Self::Killed => server.kill(),
            Self::Away => server.take_away(),
        }
    }

    /// Gives the server back, when it is time. Blocks the thread until then.
    fn end(self, server: &mut Behind) {
        match self {
            Self::Killed => {}
            Self::Away => thread::sleep(OUTAGE),
        }
        server.give_back();
    }

    /// How often a client's call that may not be run twice is run meanwhile.
    fn appended(self) -> usize {
        match self {
            Self::Killed => 0,
            Self::Away => 1,
        }
    }
}

/// A client's view of one server: what its tools are called, and which it was shown at first.
struct View {
    prefix: &'static str,
    tools: Vec<String>,
}

impl View {
    fn tool(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

#[track_caller]
fn assert_answered(result: &Value, key: &str) {
    assert_ne!(result["isError"], true, "{result}");
    assert_eq!(result["structuredContent"]["key"], key, "{result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_over_http_call_and_list_while_servers_come_and_go() {
    let sandbox = Sandbox::new();
    let (child, web) = (Behind::child(&sandbox), Behind::web());
    sandbox.configure(&json!({ "child": child.config(), "web": web.config() }));
    let serving = Serving::start(&sandbox, &[]);
    for path in ["/mcp/child", "/mcp/web"] {
        // It waits until the server is up: from now on both are in the union.
        look(&Visitor::modern(serving.address, path), "").await;
    }
    tokio::join!(
        lose(serving.address, child, "child__", "/mcp/child"),
        lose(serving.address, web, "web__", "/mcp/web"),
    );
}

/// Loses a server in every way, before the eyes of clients of every kind.
async fn lose(address: SocketAddr, mut server: Behind, prefix: &'static str, path: &'static str) {
    let visitors = [
        Visitor::legacy(address, "/mcp").await,
        Visitor::legacy(address, path).await,
        Visitor::modern(address, "/mcp"),
        Visitor::modern(address, path),
    ];
    let [one, two, three, four] = &visitors;
    let views = tokio::join!(
        look(one, prefix),
        look(two, ""),
        look(three, prefix),
        look(four, "")
    );
    for (round, loss) in Loss::ALL.into_iter().enumerate() {
        let greeted = server.ledger.count("initialize");
        loss.begin(&mut server);
        let ending = tokio::task::spawn_blocking(move || {
            loss.end(&mut server);
            server
        });
        let keys = [1, 2, 3, 4].map(|client| format!("{round}-{client}"));
        tokio::join!(
            endure(one, &views.0, loss, &keys[0]),
            endure(two, &views.1, loss, &keys[1]),
            endure(three, &views.2, loss, &keys[2]),
            endure(four, &views.3, loss, &keys[3]),
        );
        server = ending.await.unwrap();
        assert!(
            server.ledger.count("initialize") > greeted,
            "the server has forgotten what was"
        );
        for key in &keys {
            assert_eq!(server.appended(key), loss.appended(), "{path} {key}");
        }
    }
}

/// What a client is shown of a server that it can call.
async fn look(visitor: &Visitor, prefix: &'static str) -> View {
    let view = View {
        prefix,
        tools: visitor.tools().await,
    };
    let result = visitor.call(&view.tool("echo"), json!({ "key": "before" })).await;
    assert_answered(&result, "before");
    view
}

/// Calls a server that has just been lost, at once what may be run twice, and later what may not; lists all the while.
async fn endure(visitor: &Visitor, view: &View, loss: Loss, key: &str) {
    let (echo, append) = (view.tool("echo"), view.tool("append"));
    let called = async {
        let result = visitor.call(&echo, json!({ "key": key })).await;
        assert_answered(&result, key);
    };
    let called_later = async {
        if let Loss::Away = loss {
            tokio::time::sleep(LATER).await;
            let result = visitor.call(&append, json!({ "key": key })).await;
            assert_answered(&result, key);
        }
    };
    let mut both = pin!(async { tokio::join!(called, called_later) });
    let answered = poll::ask_for(LONG, async || {
        tokio::select! {
            biased;
            _ = &mut both => Some(()),
            tools = visitor.tools() => {
                assert_eq!(tools, view.tools, "the last good list");
                None
            }
        }
    });
    answered.await.expect("answered in time");
}

#[test]
fn hosts_on_stdio_call_and_list_while_servers_come_and_go() {
    let serve = |_: &Behind| ["serve", "--stdio", "--quiet"].map(str::to_owned).to_vec();
    let servers: [fn(&Sandbox) -> Behind; 2] = [Behind::child, |_| Behind::web()];
    thread::scope(|scope| {
        for server in servers {
            scope.spawn(move || lose_as_host(server, serve, "one__"));
            scope.spawn(move || lose_as_host(server, Behind::wrapped, ""));
        }
    });
}

/// Loses a server in every way, before the eyes of a host that starts the program with these arguments.
fn lose_as_host(
    server: fn(&Sandbox) -> Behind,
    arguments: impl FnOnce(&Behind) -> Vec<String>,
    prefix: &'static str,
) {
    let sandbox = Sandbox::new();
    let mut server = server(&sandbox);
    sandbox.configure(&json!({ "one": server.config() }));
    let arguments = arguments(&server);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut host = Host::start(&sandbox, &arguments);
    let view = View {
        prefix,
        tools: host.tools(),
    };
    for (round, loss) in Loss::ALL.into_iter().enumerate() {
        let result = host.call(&view.tool("echo"), &json!({ "key": "before" }));
        assert_answered(&result, "before");
        let key = round.to_string();
        loss.begin(&mut server);
        thread::scope(|scope| {
            scope.spawn(|| loss.end(&mut server));
            endure_as_host(&mut host, &view, loss, &key);
        });
        assert_eq!(server.appended(&key), loss.appended(), "{arguments:?}");
    }
    host.leave().exits(0);
    sandbox.assert_nothing_is_left();
}

/// The same for a host.
fn endure_as_host(host: &mut Host, view: &View, loss: Loss, key: &str) {
    let began = Instant::now();
    let mut waiting = vec![host.begin_call(&view.tool("echo"), &json!({ "key": key }))];
    let mut later = match loss {
        Loss::Killed => None,
        Loss::Away => Some(view.tool("append")),
    };
    let answered = poll::comes_true(LONG, || {
        assert_eq!(host.tools(), view.tools, "the last good list");
        if began.elapsed() > LATER
            && let Some(tool) = later.take()
        {
            waiting.push(host.begin_call(&tool, &json!({ "key": key })));
        }
        waiting.retain(|id| {
            let answer = host.answered(*id);
            if let Some(answer) = &answer {
                assert_answered(&answer["result"], key);
            }
            answer.is_none()
        });
        waiting.is_empty() && later.is_none()
    });
    assert!(answered, "answered in time");
}
