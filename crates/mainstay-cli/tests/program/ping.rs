use std::io::{BufRead as _, BufReader};

use mainstay_testkit::http::{FaultyHttpProcess, HttpFault, HttpRule, HttpScript};
use mainstay_testkit::{Occurrence, Script};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::sandbox::{Sandbox, dying, finish, keys};

#[test]
fn a_server_that_is_alive_shows_its_times() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new());
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["ping", &remote.url("/mcp"), "--count", "2", "--interval", "1ms"]);
    ran.exits(0)
        .prints(&format!("127.0.0.1  {}\n", remote.url("/mcp")))
        .prints("  connected  in ")
        .prints(", Streamable HTTP, 2025-11-25 (legacy era)\n")
        .prints("\n  1          ")
        .prints("\n  2          ")
        .prints("  answered   2 of 2: min ");
    assert_eq!(ran.stderr, "", "an address needs no configuration");
    assert!(!ran.stdout.contains('\u{1b}'));
}

#[test]
fn a_program_is_pinged_by_its_name() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["ping", "demo"])
        .exits(0)
        .prints("demo-server\n  connected  in ")
        .prints(", stdio, 2025-11-25 (legacy era)\n")
        .prints("3 of 3");
    sandbox.assert_nothing_is_left();
    sandbox
        .run(&["ping", "dmeo"])
        .exits(2)
        .says("there is no server \"dmeo\"; did you mean \"demo\"?");
}

#[test]
fn json_has_the_documented_keys_alive_or_dead() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new());
    let sandbox = Sandbox::with(&json!({ "dying": dying() }));
    let ran = sandbox.run(&["ping", &format!("{}?key=hush", remote.url("/mcp")), "--json"]);
    let alive = ran.exits(0).json();
    assert!(!ran.stdout.contains("hush"), "{}", ran.stdout);
    let dead = sandbox.run(&["ping", "dying", "--json"]).exits(1).json();
    let expected = [
        "address",
        "answered",
        "asked",
        "attempt",
        "budget",
        "connect_ms",
        "era",
        "error",
        "fix",
        "generation",
        "listed_at_ms",
        "max_ms",
        "median_ms",
        "min_ms",
        "next_retry_ms",
        "ok",
        "pings",
        "protocol_version",
        "reason",
        "server",
        "stale",
        "start",
        "state",
        "transport",
        "up",
        "version",
    ];
    assert_eq!(keys(&alive), expected);
    assert_eq!(keys(&dead), expected);
    assert_eq!((&alive["ok"], &alive["answered"]), (&json!(true), &json!(3)));
    assert!(alive["min_ms"].as_f64() > Some(0.0) && alive["connect_ms"].as_f64() > Some(0.0));
    assert!(alive["min_ms"].as_f64() <= alive["median_ms"].as_f64());
    assert_eq!(keys(&alive["pings"][0]), ["error", "round_trip_ms"]);
    assert_eq!((&dead["ok"], &dead["connect_ms"]), (&json!(false), &json!(null)));
    assert_eq!(dead["error"]["exit_code"], 3);
    assert_eq!(dead["pings"], json!([]));
}

#[test]
fn one_question_without_an_answer_is_a_failure_that_shows_the_others() {
    let rule = HttpRule::on("ping", HttpFault::NoHead).occurrence(Occurrence::Nth(2));
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new().rule(rule));
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["ping", &remote.url("/mcp"), "--timeout", "2s"]);
    ran.exits(1)
        .prints("  2          no answer within 2.0 s\n")
        .prints("  answered   2 of 3: min ");
}

#[test]
fn an_address_that_is_none_is_wrong_usage_and_not_repeated() {
    for (address, said) in [
        (
            "ftp://mcp.example/?key=hush",
            "\"ftp\" is not a scheme of HTTP; use https:// or http://",
        ),
        ("http://ann:hush@mcp.example/", "leave it out"),
    ] {
        let ran = Sandbox::new().run(&["ping", address]);
        ran.exits(2).says(said);
        assert!(!ran.stderr.contains("hush"), "{}", ran.stderr);
    }
    for line in [["--count", "0"], ["--interval", "soon"], ["--timeout", "0"]] {
        Sandbox::new().run(&["ping", "demo", line[0], line[1]]).exits(2);
    }
}

#[test]
fn an_interrupt_ends_a_long_measurement() {
    let sandbox = Sandbox::new();
    let arguments = ["ping", "demo", "--count", "1000", "--interval", "1h"];
    let mut child = sandbox.command(&arguments).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("  1 ") {
        line.clear();
        assert_ne!(
            stdout.read_line(&mut line).unwrap(),
            0,
            "it ended before the first answer"
        );
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    finish(child).exits(130);
    sandbox.assert_nothing_is_left();
}
