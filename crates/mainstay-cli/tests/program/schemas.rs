//! The published schemas, and what the commands with `--json` print: when they succeed and when they fail.
//!
//! `Sandbox::run` checks the output of every such command of every test. Here each command is run once for each form of its output,
//! and each document is changed to see that its schema takes nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use jsonschema::Validator;
use mainstay_partner::ProtectedServer;
use serde_json::{Value, json};

use crate::daemon::{Shared, wait_until};
use crate::host::Host;
use crate::sandbox::{Ran, Sandbox, dying, finish, good, missing, shell};

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");

/// Members whose value is a server's: anything can be in it.
const FREE: [&str; 5] = ["definition", "result", "rpc", "recorded", "now"];
/// Members of a difference that are absent where an answer has nothing.
const MAY_BE_ABSENT: [&str; 2] = ["recorded", "now"];

/// The outputs of each test below. Together they are all that are published.
const WITHOUT_A_DAEMON: [&str; 9] = [
    "call",
    "check",
    "daemon-status",
    "describe",
    "doctor",
    "ping",
    "prompt",
    "read",
    "tools",
];
const OF_A_DAEMON: [&str; 7] = [
    "daemon-status",
    "events",
    "logs",
    "reload",
    "replay",
    "sessions",
    "status",
];
const OF_LOGINS: [&str; 3] = ["auth-status", "login", "logout"];

/// Holds that what a command printed fits its schema, if it was to print JSON.
#[track_caller]
pub(crate) fn assert_output_fits(arguments: &[&str], stdout: &str) {
    let options = arguments.split(|word| *word == "--").next().unwrap_or(arguments);
    if !options.contains(&"--json") {
        return;
    }
    let output = output_of(options).unwrap_or_else(|| panic!("no schema is published for {arguments:?}"));
    let validator = validator(&output);
    documents(stdout)
        .iter()
        .for_each(|document| assert_fits(&validator, document));
}

/// The name of a command's output: its words.
fn output_of(arguments: &[&str]) -> Option<String> {
    let outputs = published();
    let one = arguments.iter().map(|word| (*word).to_owned());
    let two = arguments.windows(2).map(|words| words.join("-"));
    two.chain(one).find(|words| outputs.contains(words))
}

fn published() -> BTreeSet<String> {
    let files = fs::read_dir(PUBLISHED).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    files.map(|file| file.replace(".json", "")).collect()
}

fn validator(output: &str) -> Validator {
    let schema = fs::read_to_string(format!("{PUBLISHED}/{output}.json")).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap()
}

/// One document, or one on each line.
#[track_caller]
fn documents(stdout: &str) -> Vec<Value> {
    let documents = serde_json::Deserializer::from_str(stdout).into_iter();
    documents
        .map(|document| document.unwrap_or_else(|error| panic!("{error} in stdout:\n{stdout}")))
        .collect()
}

#[track_caller]
fn assert_fits(validator: &Validator, document: &Value) {
    let errors = validator.iter_errors(document).map(|error| error.to_string());
    let errors: Vec<_> = errors.collect();
    assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
}

/// Holds that the schema refuses the document with a key more, and with a key less, in whichever of its objects.
#[track_caller]
fn assert_is_exact(output: &str, document: &Value) {
    let validator = validator(output);
    for place in objects(document) {
        let keys: Vec<String> = document
            .pointer(&place)
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        let refused = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let mut changed = document.clone();
            change(changed.pointer_mut(&place).unwrap().as_object_mut().unwrap());
            !validator.is_valid(&changed)
        };
        assert!(
            refused(&|object| _ = object.insert("surplus".into(), Value::Null)),
            "{output} takes a key more at {place:?}: {document:#}"
        );
        for key in keys.iter().filter(|key| !MAY_BE_ABSENT.contains(&key.as_str())) {
            assert!(
                refused(&|object| _ = object.remove(key)),
                "{output} misses no {key} at {place:?}: {document:#}"
            );
        }
    }
}

/// The places of the objects whose keys are ours.
fn objects(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), document)];
    while let Some((place, value)) = open.pop() {
        match value {
            Value::Object(members) => {
                let members = members.iter().filter(|(key, _)| !FREE.contains(&key.as_str()));
                open.extend(members.map(|(key, member)| (format!("{place}/{key}"), member)));
                found.push(place);
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                open.extend(items.map(|(at, item)| (format!("{place}/{at}"), item)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

/// The outputs that a test has seen.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    /// A run that prints documents, with this exit code.
    #[track_caller]
    fn prints(&mut self, sandbox: &Sandbox, code: i32, arguments: &[&str]) -> Vec<Value> {
        let line: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        self.ran(&line, sandbox.run(&line).exits(code))
    }

    #[track_caller]
    fn ran(&mut self, arguments: &[&str], ran: &Ran) -> Vec<Value> {
        assert_output_fits(arguments, &ran.stdout);
        let output = output_of(arguments).expect("a schema");
        let printed = documents(&ran.stdout);
        assert!(
            !printed.is_empty(),
            "{arguments:?} prints nothing:\n{}",
            ran.stderr
        );
        printed
            .iter()
            .for_each(|document| assert_is_exact(&output, document));
        self.0.insert(output);
        printed
    }

    #[track_caller]
    fn assert_are(self, outputs: &[&str]) {
        assert_eq!(self.0, outputs.iter().copied().map(str::to_owned).collect());
    }
}

/// A run that fails before there is anything to print.
#[track_caller]
fn prints_nothing(sandbox: &Sandbox, code: i32, arguments: &[&str]) {
    let line: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    let ran = sandbox.run(&line);
    assert_eq!(ran.exits(code).stdout, "", "{arguments:?}");
    assert_ne!(ran.stderr, "", "{arguments:?}");
}

#[test]
fn every_published_schema_is_compared_with_a_real_output() {
    let compared = WITHOUT_A_DAEMON.iter().chain(&OF_A_DAEMON).chain(&OF_LOGINS);
    assert_eq!(published(), compared.map(|output| (*output).to_owned()).collect());
}

#[test]
fn what_commands_print_of_servers_that_they_start_is_exactly_what_their_schemas_say() {
    let mut seen = Seen::default();
    let sandbox = Sandbox::with(&json!({ "demo": good() }));
    seen.prints(&sandbox, 0, &["check"]);
    seen.prints(&sandbox, 0, &["check", "--no-start"]);
    seen.prints(&sandbox, 0, &["tools"]);
    seen.prints(&sandbox, 0, &["describe", "demo", "echo"]);
    seen.prints(&sandbox, 0, &["call", "demo", "echo", "text=x"]);
    seen.prints(&sandbox, 1, &["call", "demo", "add", r#"{"a": "one"}"#]);
    seen.prints(&sandbox, 4, &["call", "demo", "crash"]);
    seen.prints(&sandbox, 0, &["read", "demo", "demo://about"]);
    seen.prints(&sandbox, 1, &["read", "demo", "demo://nowhere"]);
    seen.prints(&sandbox, 0, &["prompt", "demo", "summarize", "text=x"]);
    seen.prints(&sandbox, 1, &["prompt", "demo", "summarize"]);
    seen.prints(&sandbox, 0, &["ping", "demo", "--count", "1"]);
    seen.prints(&sandbox, 0, &["doctor"]);
    seen.prints(&sandbox, 1, &["daemon", "status"]);
    prints_nothing(&sandbox, 2, &["describe", "demo", "nothing"]);
    prints_nothing(&sandbox, 2, &["call", "unknown", "echo"]);

    let broken = Sandbox::with(&json!({ "gone": missing(), "dying": dying(), "odd": {} }));
    let checked = seen.prints(&broken, 2, &["check", "--timeout", "5s"]);
    assert!(
        !checked[0]["configuration"]["problems"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    seen.prints(&broken, 2, &["check", "--no-start"]);
    seen.prints(&broken, 1, &["tools", "--timeout", "5s"]);
    seen.prints(&broken, 3, &["describe", "gone", "echo"]);
    seen.prints(&broken, 3, &["call", "gone", "echo"]);
    seen.prints(&broken, 3, &["read", "gone", "demo://about"]);
    seen.prints(&broken, 3, &["prompt", "gone", "summarize"]);
    seen.prints(&broken, 1, &["ping", "gone"]);
    seen.prints(&broken, 1, &["doctor"]);
    broken.write("home/.config/mainstay/mcp.json", "{");
    for line in [&["check"][..], &["tools"], &["ping", "gone"]] {
        prints_nothing(&broken, 2, line);
    }
    seen.assert_are(&WITHOUT_A_DAEMON);
}

#[test]
fn what_commands_print_of_the_daemon_is_exactly_what_their_schemas_say() {
    let mut seen = Seen::default();
    let talking = shell("echo 'I am ready' >&2; exec cat >/dev/null");
    let servers = json!({ "demo": good(), "gone": missing(), "dying": dying(), "talking": talking });
    let shared = Shared {
        sandbox: Sandbox::with(&servers),
    };
    let sandbox = &shared.sandbox;
    for line in [
        &["status"][..],
        &["reload"],
        &["logs", "demo"],
        &["events"],
        &["sessions"],
    ] {
        prints_nothing(sandbox, 1, line);
    }
    sandbox.run(&["daemon", "start", "--record"]).exits(0);
    let mut host = Host::start(sandbox, &["connect"]);
    host.tools();
    wait_until("a failure and a line are seen", || {
        let failed = sandbox
            .run(&["status", "gone"])
            .stdout
            .contains("permanently_failed");
        failed && sandbox.run(&["logs", "talking"]).stdout.contains("I am ready")
    });
    seen.prints(sandbox, 1, &["status"]);
    seen.prints(sandbox, 0, &["status", "demo"]);
    seen.prints(sandbox, 0, &["daemon", "status"]);
    seen.prints(sandbox, 0, &["sessions"]);
    seen.prints(sandbox, 0, &["logs", "talking"]);
    prints_nothing(sandbox, 2, &["logs", "unknown"]);

    sandbox.run(&["call", "demo", "echo", "text=hello"]).exits(0);
    let recording = sandbox.run(&["record", "demo"]).exits(0).stdout.clone();
    let file = sandbox.write("demo.jsonl", &recording).display().to_string();
    seen.prints(sandbox, 0, &["replay", &file]);
    let planted = recording.replace("\"content\":[{\"text\"", "\"content\":[{\"other\"");
    assert_ne!(planted, recording, "the answer is in the recording");
    let planted = sandbox.write("planted.jsonl", &planted).display().to_string();
    let played = seen.prints(sandbox, 1, &["replay", &planted]);
    let differences = played[0]["different"][0]["differences"].to_string();
    assert!(
        differences.contains("recorded") && differences.contains("now"),
        "{differences}"
    );
    prints_nothing(sandbox, 2, &["replay", "missing.jsonl"]);

    sandbox
        .configure(&json!({ "demo": good(), "gone": { "command": "no-such-program-anywhere", "cmd": 1 } }));
    seen.prints(sandbox, 0, &["reload"]);
    sandbox.write("home/.config/mainstay/mcp.json", "{");
    prints_nothing(sandbox, 2, &["reload"]);
    sandbox.run(&["disable", "demo"]).exits(0);
    let events = seen.prints(sandbox, 0, &["events"]);
    let kinds: BTreeSet<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    for kind in ["transition", "command", "reloaded", "reload_refused", "removed"] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
    seen.assert_are(&OF_A_DAEMON);
}

#[test]
fn what_commands_print_of_logins_is_exactly_what_their_schemas_say() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let mut seen = Seen::default();
    let sandbox = Sandbox::with(&json!({ "search": { "url": protected.resource } }));
    let mut log_in = |code: i32| {
        let line = ["login", "search", "--json"];
        let mut command = sandbox.command(&line);
        command.env("BROWSER", protected.browser()).stdin(Stdio::null());
        seen.ran(&line, finish(command.spawn().unwrap()).exits(code))
    };
    protected.set_person("ann", false);
    assert_eq!(log_in(1)[0]["ok"], false);
    protected.set_person("ann", true);
    assert_eq!(log_in(0)[0]["ok"], true);
    seen.prints(&sandbox, 0, &["auth", "status"]);
    let ended = seen.prints(&sandbox, 0, &["logout", "search"]);
    assert_eq!(ended[0]["logins"].as_array().map(Vec::len), Some(1));
    let none = seen.prints(&sandbox, 0, &["logout", "search"]);
    assert_eq!(none[0]["logins"].as_array().map(Vec::len), Some(0));
    seen.prints(&sandbox, 0, &["auth", "status"]);
    for line in [&["login", "unknown"][..], &["logout", "unknown"]] {
        prints_nothing(&sandbox, 2, line);
    }
    seen.assert_are(&OF_LOGINS);
}
