//! What people ask: restart, enable, disable, and changes of the configuration. Each is recorded.

use std::sync::{Arc, Mutex};

use mainstay::lifecycle::TimeLimits;
use mainstay_control::api::{
    Actor, ActorKind, ApiProblem, DesiredState, EntryDocument, EventDetail, ProblemKind, ReloadReport,
    StateName,
};
use mainstay_control::{Control, Controlled, Controlling, Role};
use mainstay_testkit::fleet::{LONG, Memory, connected};
use mainstay_testkit::{Fault, Rule, Script, Step};
use serde_json::json;

use crate::support::{World, record_with};

#[tokio::test]
async fn a_person_disables_enables_and_restarts_a_server_and_each_is_recorded_with_who_did_it() {
    let world = World::one().await;
    let server = world.gateway.fleet().server("one").expect("configured");
    let mut events = world.client.events(None, 0).await.expect("a stream");
    let client = world.client.clone().via(ActorKind::Command);
    client.disable("one").await.expect("disabled");
    let disabled = server.wait_until(LONG, |status| status.state == mainstay::StateKind::Disabled);
    disabled.await.expect("nothing runs");
    let refused = client
        .restart("one")
        .await
        .expect_err("a disabled server is not restarted");
    let problem = refused.problem().expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Conflict);
    assert_eq!(problem.remedy.as_deref(), Some("enable it first"));
    client.enable("one").await.expect("enabled");
    let before = connected(&server).await.generation;
    world.client.restart("one").await.expect("restarted");
    server
        .wait_until(LONG, |status| {
            status.state == mainstay::StateKind::Connected && status.generation != before
        })
        .await
        .expect("connected again");
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let record = record_with(&mut events, |detail| {
            matches!(detail, EventDetail::Command { .. })
        })
        .await;
        assert_eq!(record.server.as_deref(), Some("one"));
        let EventDetail::Command {
            command, by, refused, ..
        } = record.detail
        else {
            unreachable!("filtered");
        };
        assert!(by.agent.expect("an agent").starts_with("mainstay/"));
        seen.push((command, by.via, refused.is_some()));
    }
    let command = |word: &str, via, is_refused| (word.to_owned(), via, is_refused);
    assert_eq!(
        seen,
        [
            command("disable", ActorKind::Command, false),
            command("restart", ActorKind::Command, true),
            command("enable", ActorKind::Command, false),
            command("restart", ActorKind::Api, false),
        ]
    );
}

#[tokio::test]
async fn a_call_and_every_command_for_an_unknown_server_are_recorded() {
    let world = World::one().await;
    let mut events = world.client.events(None, 0).await.expect("a stream");
    let call = json!({ "tool": "echo", "arguments": { "secret": "s3cret" } }).to_string();
    let address = json!({ "address": "http://127.0.0.1:1/callback?code=s3cret" }).to_string();
    for (method, path, body, status, recorded) in [
        ("POST", "one/call", call.as_str(), 200, "call echo"),
        ("POST", "one/login/callback", &address, 409, "login callback"),
        ("POST", "other/call", &call, 404, "call echo"),
        ("POST", "other/login", "", 404, "login"),
        ("POST", "other/login/callback", &address, 404, "login callback"),
        ("POST", "other/calls/7/cancel", "", 404, "cancel 7"),
        ("POST", "other/restart", "", 404, "restart"),
        ("PATCH", "other", "{}", 404, "change"),
        ("DELETE", "other", "", 404, "remove"),
    ] {
        let request = format!(
            "{method} /api/v1/servers/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (answered, answer) = world.raw(&request).await;
        assert_eq!(answered, status, "{method} {path}: {answer}");
        let record = record_with(&mut events, |detail| {
            matches!(detail, EventDetail::Command { .. })
        })
        .await;
        let is_known = path.starts_with("one");
        assert_eq!(record.server.as_deref(), is_known.then_some("one"), "{path}");
        assert!(!format!("{record:?}").contains("s3cret"), "{record:?}");
        let EventDetail::Command { command, refused, .. } = record.detail else {
            unreachable!("filtered");
        };
        assert_eq!((command.as_str(), refused.is_some()), (recorded, status != 200));
        if path == "one/call" {
            let ended = record_with(&mut events, |_| true).await.detail;
            let EventDetail::Command { command, outcome, .. } = ended else {
                panic!("{ended:?}")
            };
            assert_eq!(
                (command.as_str(), outcome.as_deref()),
                ("call echo", Some("answered"))
            );
        }
        if !is_known {
            assert!(refused.is_some_and(|why| why.contains("other")), "{path}");
        }
    }
}

#[tokio::test]
async fn a_transition_is_recorded_with_its_cause_and_failure() {
    let memory = Memory::new(Script::new());
    let world = World::of(&[("one", &memory)]).await;
    let mut events = world.client.events(Some("one"), 0).await.expect("a stream");
    memory.set_down(true);
    memory.side(1).await.cut();
    let lost = |detail: &EventDetail| {
        matches!(
            detail,
            EventDetail::Transition {
                from: StateName::Connected,
                ..
            }
        )
    };
    let record = record_with(&mut events, lost).await;
    let EventDetail::Transition {
        to,
        cause,
        generation,
        failure,
        ..
    } = record.detail
    else {
        unreachable!("filtered");
    };
    assert_eq!((to, cause.as_str()), (StateName::Reconnecting, "lost"));
    assert!(generation.is_some() && failure.is_some());
    assert!(record.at_ms > 0 && record.sequence > 0);
}

/// A program that notes what it is asked.
#[derive(Default)]
struct Noted(Mutex<Vec<String>>);

impl Noted {
    fn note(&self, what: String) {
        self.0.lock().expect("not poisoned").push(what);
    }
}

impl Controlled for Noted {
    fn reload(&self) -> Controlling<'_, ReloadReport> {
        self.note("reload".to_owned());
        Box::pin(async {
            let problem = ApiProblem::new(ProblemKind::InvalidConfiguration, "the file has an error");
            Err(problem.at("mainstay.json:3").remedy("add a comma"))
        })
    }

    fn add(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        self.note(format!("add {} {}", entry.name, entry.entry["command"]));
        Box::pin(async move {
            Ok(ReloadReport {
                added: vec![entry.name],
                ..ReloadReport::default()
            })
        })
    }

    fn remove(&self, server: &str) -> Controlling<'_, ReloadReport> {
        self.note(format!("remove {server}"));
        Box::pin(async { Ok(ReloadReport::default()) })
    }

    fn remember(&self, server: &str, desired: DesiredState) -> Controlling<'_, ()> {
        self.note(format!("remember {server} {desired:?}"));
        Box::pin(async { Ok(()) })
    }

    fn configuration(&self) -> Option<String> {
        Some("mainstay.json".to_owned())
    }
}

#[tokio::test]
async fn the_program_is_asked_for_what_it_alone_can_do() {
    let noted = Arc::new(Noted::default());
    let memory = Memory::new(Script::new());
    let config = memory.config("one").build().expect("valid");
    let world = World::with(Control::builder(Role::Daemon).controlled(noted.clone()), [config]);
    connected(&world.gateway.fleet().server("one").expect("configured")).await;
    let mut events = world.client.events(None, 0).await.expect("a stream");
    let refused = world.client.reload().await.expect_err("an invalid file");
    let problem = refused.problem().expect("a problem");
    assert_eq!(
        (problem.status, problem.place.as_deref()),
        (422, Some("mainstay.json:3"))
    );
    let entry = json!({ "command": "npx" });
    let entry = EntryDocument {
        name: "new/one".to_owned(),
        entry: entry.as_object().expect("an object").clone(),
    };
    assert_eq!(world.client.add(&entry).await.expect("added").added, ["new/one"]);
    let unknown = world
        .client
        .change(&entry)
        .await
        .expect_err("there is no such server yet");
    assert_eq!(
        unknown.problem().map(|problem| problem.kind),
        Some(ProblemKind::UnknownServer)
    );
    world.client.remove("one").await.expect("removed");
    world.client.disable("one").await.expect("disabled");
    assert_eq!(
        *noted.0.lock().expect("not poisoned"),
        [
            "reload",
            "add new/one \"npx\"",
            "remove one",
            "remember one Disabled"
        ]
    );
    assert_eq!(
        world
            .client
            .program()
            .await
            .expect("a program")
            .configuration
            .as_deref(),
        Some("mainstay.json")
    );
    let refused = record_with(&mut events, |detail| {
        matches!(detail, EventDetail::ReloadRefused { .. })
    })
    .await;
    assert_eq!(refused.server, None);
    let added = record_with(&mut events, |detail| matches!(detail, EventDetail::Added)).await;
    assert_eq!(added.server.as_deref(), Some("new/one"));
}

#[tokio::test]
async fn a_program_without_a_configuration_file_says_so() {
    let world = World::one().await;
    for refused in [
        world.client.reload().await.expect_err("nothing to read"),
        world.client.remove("one").await.expect_err("nothing to change"),
    ] {
        assert_eq!(
            refused.problem().map(|problem| problem.kind),
            Some(ProblemKind::NotSupported)
        );
    }
}

#[tokio::test]
async fn a_person_has_a_server_listed_again_and_learns_whether_its_offers_changed() {
    let offering = |tools: &[&str]| {
        let script = Script::new().without_builtin_tools();
        tools.iter().fold(script, |script, tool| script.tool(tool))
    };
    let memory = Memory::new(offering(&["old"]));
    let world = World::of(&[("one", &memory)]).await;
    let mut events = world.client.events(None, 0).await.expect("a stream");
    let client = world.client.clone().via(ActorKind::Command);
    let side = memory.side(1).await;
    let listed_before = side.count("tools/list");
    let same = client.refresh("one").await.expect("listed");
    assert_eq!(
        (same.server.as_str(), same.changed, same.tools),
        ("one", false, 1)
    );
    assert_eq!(side.count("tools/list"), listed_before + 1);
    side.edit(|script| *script = offering(&["new", "more"]));
    let changed = client.refresh("one").await.expect("listed");
    assert_eq!(
        (changed.changed, changed.tools, changed.prompts),
        (true, 2, same.prompts)
    );
    assert!(changed.revision > same.revision && changed.listed_ms >= same.listed_ms);
    assert_eq!(changed.revision, world.gateway.fleet().catalog().revision());
    client.disable("one").await.expect("disabled");
    let refused = client.refresh("one").await.expect_err("disabled");
    let problem = refused.problem().expect("a problem");
    assert_eq!(
        (problem.kind, problem.remedy.as_deref()),
        (ProblemKind::Conflict, Some("enable it first"))
    );
    let unknown = client.refresh("none").await.expect_err("unknown");
    assert_eq!(
        unknown.problem().map(|problem| problem.kind),
        Some(ProblemKind::UnknownServer)
    );
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let record = record_with(
            &mut events,
            |detail| matches!(detail, EventDetail::Command { command, .. } if command == "refresh"),
        )
        .await;
        let EventDetail::Command { by, refused, .. } = record.detail else {
            unreachable!("filtered");
        };
        assert_eq!(by.via, ActorKind::Command);
        seen.push((record.server, refused.is_some()));
    }
    let one = || Some("one".to_owned());
    assert_eq!(
        seen,
        [(one(), false), (one(), false), (one(), true), (None, true)]
    );
}

#[tokio::test]
async fn a_server_that_is_not_connected_is_not_listed_for_a_person_and_nothing_waits_for_it() {
    let memory = Memory::new(Script::new());
    memory.set_down(true);
    let config = memory.config("down").build().expect("valid");
    let world = World::with(Control::builder(Role::Serve), [config]);
    let refused = world.client.refresh("down").await.expect_err("not connected");
    let problem = refused.problem().expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Conflict);
    assert!(problem.title.contains("is not connected"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn a_listing_without_an_end_is_answered_when_the_time_for_it_is_over() {
    // Each page comes in time for itself; the four lists together take two minutes.
    let slow = |method: &str| Rule::new(Step::List, Fault::Delay { ms: 29_000 }).method(method);
    let slow = |script: Script| {
        [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ]
        .into_iter()
        .fold(script, |script, method| script.rule(slow(method)))
    };
    let memory = Memory::new(Script::new());
    let policy = mainstay::Policy {
        limits: TimeLimits {
            list: LONG * 60,
            ..TimeLimits::default()
        },
        ..mainstay::Policy::default()
    };
    let config = memory.config("one").policy(policy).build().expect("valid");
    let world = World::with(Control::builder(Role::Serve), [config]);
    connected(&world.gateway.fleet().server("one").expect("configured")).await;
    memory.side(1).await.edit(|script| *script = slow(Script::new()));
    let by = Actor::via(ActorKind::Api);
    let late = world.control.refresh("one", by).await.expect_err("it never ends");
    assert_eq!((late.kind, late.status), (ProblemKind::TimedOut, 408), "{late}");
}

#[tokio::test]
async fn a_call_that_may_have_run_says_so_in_one_place_and_is_recorded_so() {
    let world = World::one().await;
    let mut events = world.client.events(None, 0).await.expect("a stream");
    let body = json!({ "tool": "sleep_ms", "arguments": { "ms": 60_000 }, "timeout_ms": 200 }).to_string();
    let request = format!(
        "POST /api/v1/servers/one/call HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, answer) = world.raw(&request).await;
    assert_eq!(status, 200, "{answer}");
    let error = &answer["error"];
    assert_eq!(
        (&error["outcome"], &error["may_have_run"]),
        (&json!("unknown"), &json!(true))
    );
    // The page and the program add it to the message.
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("did not answer in time"), "{message}");
    assert!(!message.contains("may have run"), "{message}");
    let ended = record_with(&mut events, |detail| {
        matches!(detail, EventDetail::Command { outcome: Some(_), .. })
    });
    let EventDetail::Command { outcome, .. } = ended.await.detail else {
        unreachable!("filtered");
    };
    assert_eq!(outcome.as_deref(), Some("unknown"));
}
