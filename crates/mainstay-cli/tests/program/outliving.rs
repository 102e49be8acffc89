//! A client keeps its session, its tools and its answers whatever becomes of the servers behind the gateway.

use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::behind::Behind;
use crate::host::Host;
use crate::sandbox::Sandbox;
use crate::serving::{LONG, Serving, Visitor};

/// How long a server is away.
const OUTAGE: Duration = Duration::from_secs(3);

/// When a call comes that meets a server known to be away.
const LATER: Duration = Duration::from_secs(1);

/// Between two looks at a list.
const PAUSE: Duration = Duration::from_millis(10);

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
}

/// A client's view of one server: what its tools are called, and which it was shown at first.
struct View {
    prefix: String,
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
    for (name, path, mut server) in [
        ("child", "/mcp/child", Behind::child(&sandbox)),
        ("web", "/mcp/web", Behind::web()),
    ] {
        sandbox.configure(&json!({ name: server.config() }));
        let serving = Serving::start(&sandbox, &["--no-cache"]);
        let address = serving.address;
        let visitors = [
            Visitor::legacy(address, "/mcp").await,
            Visitor::legacy(address, path).await,
            Visitor::modern(address, "/mcp"),
            Visitor::modern(address, path),
        ];
        for (round, loss) in Loss::ALL.into_iter().enumerate() {
            let [one, two, three, four] = &visitors;
            let views = tokio::join!(look(one, name), look(two, ""), look(three, name), look(four, ""));
            let greeted = server.ledger.count("initialize");
            loss.begin(&mut server);
            let ending = tokio::task::spawn_blocking(move || {
                loss.end(&mut server);
                server
            });
            let key = |client: u32| format!("{round}-{client}");
            let keys = [key(1), key(2), key(3), key(4)];
            tokio::join!(
                endure(one, &views.0, loss, &keys[0]),
                endure(two, &views.1, loss, &keys[1]),
                endure(three, &views.2, loss, &keys[2]),
                endure(four, &views.3, loss, &keys[3]),
            );
            server = ending.await.unwrap();
            assert!(
                server.ledger.count("initialize") > greeted,
                "a new session, or a new process"
            );
            if let Loss::Away = loss {
                for key in &keys {
                    assert_eq!(
                        server.ledger.count(&format!("call append {key}")),
                        1,
                        "{name} {key}"
                    );
                }
            }
        }
    }
}

/// What a client is shown of a server that it can call.
async fn look(visitor: &Visitor, server: &str) -> View {
    let prefix = if server.is_empty() {
        String::new()
    } else {
        format!("{server}__")
    };
    let tools = visitor.tools().await;
    let view = View { prefix, tools };
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
    loop {
        tokio::select! {
            biased;
            _ = &mut both => return,
            tools = visitor.tools() => assert_eq!(tools, view.tools, "the last good list"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[test]
fn a_host_on_stdio_calls_and_lists_while_servers_come_and_go() {
    let sandbox = Sandbox::new();
    for mut server in [Behind::child(&sandbox), Behind::web()] {
        sandbox.configure(&json!({ "one": server.config() }));
        let wrapped = server.wrapped();
        let wrapped: Vec<&str> = wrapped.iter().map(String::as_str).collect();
        for (arguments, prefix) in [
            (&["serve", "--stdio", "--no-cache", "--quiet"][..], "one__"),
            (&wrapped, ""),
        ] {
            let mut host = Host::start(&sandbox, arguments);
            for (round, loss) in Loss::ALL.into_iter().enumerate() {
                let view = View {
                    prefix: prefix.to_owned(),
                    tools: host.tools(),
                };
                let result = host.call(&view.tool("echo"), &json!({ "key": "before" }));
                assert_answered(&result, "before");
                let key = format!("{prefix}{round}");
                loss.begin(&mut server);
                thread::scope(|scope| {
                    scope.spawn(|| loss.end(&mut server));
                    endure_as_host(&mut host, &view, loss, &key);
                });
                if let Loss::Away = loss {
                    assert_eq!(server.ledger.count(&format!("call append {key}")), 1, "{key}");
                }
            }
            host.leave().exits(0);
        }
    }
}

/// The same for a host.
fn endure_as_host(host: &mut Host, view: &View, loss: Loss, key: &str) {
    let began = Instant::now();
    let mut waiting = vec![host.begin_call(&view.tool("echo"), &json!({ "key": key }))];
    let mut later = match loss {
        Loss::Killed => None,
        Loss::Away => Some(view.tool("append")),
    };
    while !waiting.is_empty() || later.is_some() {
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
        assert!(began.elapsed() < LONG, "answered in time");
        thread::sleep(PAUSE);
    }
}
