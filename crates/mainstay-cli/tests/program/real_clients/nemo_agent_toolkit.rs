//! NVIDIA NeMo Agent Toolkit: its own MCP client, configured as `docs/nemo-agent-toolkit.md` says, and a server that is killed under it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use mainstay_partner::nemo_agent_toolkit_python;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Rule, Step};
use serde_json::{Value, json};

use super::child;
use super::server::MAINSTAY;
use super::way::Home;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The server's program in the document.
const SERVER: &str = "my-mcp-server";

/// The line of the document by which the toolkit repeats nothing.
const NO_REPEATS: &str = "    reconnect_enabled: false\n";

/// All steps of one run. The toolkit alone takes seconds to start on a busy machine.
const WITHIN: Duration = Duration::from_secs(100);

/// How long the toolkit waits for an answer where a test waits for that: it also bounds the first listing, which starts the server.
const TIMEOUT_SECONDS: u32 = 5;

const PARALLEL: usize = 10;

/// A server with a tool that answers, one that refuses its arguments, and one that never answers.
struct Toolkit {
    python: std::path::PathBuf,
    home: Home,
    ledger: Ledger,
}

impl Toolkit {
    fn new() -> Option<Self> {
        let python = nemo_agent_toolkit_python()?;
        let (home, ledger) = (Home::new(), Ledger::temporary());
        let schema =
            json!({ "type": "object", "properties": { "key": { "type": "string" } }, "required": ["key"] });
        let tool = |name: &str, reads: bool| {
            let hints = json!({ "readOnlyHint": reads });
            json!({ "name": name, "description": name, "inputSchema": schema, "annotations": hints })
        };
        let invalid = Fault::Error {
            code: -32602,
            message: "no such order".to_owned(),
        };
        let server = FaultyServer::new().ledger(&ledger).script(|script| {
            script
                .without_builtin_tools()
                .tool_json(tool("lookup", true))
                .tool_json(tool("order", false))
                .tool_json(tool("stuck", false))
                .rule(Rule::new(Step::Call, invalid).named("order"))
                .rule(Rule::new(Step::Call, Fault::NoAnswer).named("stuck"))
        });
        fs::create_dir(home.path().join("bin")).expect("a directory");
        symlink(MAINSTAY, home.path().join("bin/mainstay")).expect("a link");
        let [script] = &server.args()[1..] else {
            panic!("a script is one argument")
        };
        fs::write(home.path().join("script.json"), script).expect("the script");
        let start = format!(
            "#!/bin/sh\nexec '{}' --script \"$(cat \"$HOME/script.json\")\"\n",
            server.command()
        );
        let program = home.write(&format!("bin/{SERVER}"), &start);
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("it may be run");
        Some(Self { python, home, ledger })
    }

    /// What the toolkit tells of each step with this configuration.
    fn perform(&self, configuration: &str, steps: &Value) -> Vec<Value> {
        let file = self.home.write("workflow.yml", configuration);
        let path = format!(
            "{}/bin:{}",
            self.home.path().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut command = self.home.command(&self.python);
        command.env("PATH", path);
        command.arg(format!("{PROJECT}/tests/nemo-agent-toolkit/nat_client.py"));
        command.arg(file).arg(self.ledger.path()).arg(steps.to_string());
        let said = child::run(&mut command, WITHIN);
        let told: Vec<Value> = said
            .stdout
            .lines()
            .map_while(|line| serde_json::from_str(line).ok())
            .collect();
        assert_eq!(
            told.len(),
            steps.as_array().map_or(0, Vec::len),
            "{}\n{}",
            said.stdout,
            said.stderr
        );
        told
    }

    fn starts(&self) -> usize {
        self.ledger.pids().len()
    }
}

/// The configuration in the document.
fn documented() -> String {
    let document = fs::read_to_string(format!("{PROJECT}/docs/nemo-agent-toolkit.md")).expect("the document");
    let (_, rest) = document.split_once("```yaml\n").expect("a configuration in it");
    let (configuration, _) = rest.split_once("```").expect("its end");
    assert!(configuration.contains(NO_REPEATS), "{configuration}");
    configuration.to_owned()
}

/// The configuration in the document, with a short timeout for what is never answered.
fn impatient() -> String {
    format!("{}    tool_call_timeout: {TIMEOUT_SECONDS}\n", documented())
}

/// A call that works, the death of the server, and many calls at once.
fn outliving() -> Value {
    json!([
        { "do": "list" },
        { "do": "call", "tool": "lookup", "times": 1 },
        { "do": "kill" },
        { "do": "call", "tool": "lookup", "times": PARALLEL },
    ])
}

fn answers() -> Value {
    (0..PARALLEL)
        .map(|n| Value::String(json!({ "key": format!("k{n}") }).to_string()))
        .collect()
}

fn outlives(toolkit: &Toolkit, configuration: &str) {
    let told = toolkit.perform(configuration, &outliving());
    assert_eq!(told[0]["tools"], json!(["lookup", "order", "stuck"]));
    assert_eq!(told[3]["texts"], answers());
    assert_eq!(toolkit.starts(), 2, "one start, and one after it was killed");
    assert_eq!(
        toolkit.ledger.count("call lookup"),
        1 + PARALLEL,
        "each call ran once"
    );
}

#[test]
fn parallel_calls_of_the_nemo_agent_toolkit_after_a_kill_cost_one_start_and_are_all_answered() {
    let Some(toolkit) = Toolkit::new() else { return };
    outlives(&toolkit, &documented());
    let mut status = toolkit.home.command(MAINSTAY);
    let said = child::run(status.arg("status"), WITHIN);
    assert!(said.stdout.contains(SERVER), "{}{}", said.stdout, said.stderr);
    toolkit.home.assert_nothing_is_left();
}

#[test]
fn a_wrapped_server_of_the_nemo_agent_toolkit_is_started_once_after_a_kill() {
    let Some(toolkit) = Toolkit::new() else { return };
    let wrapped = documented().replace("[connect, ", "[wrap, ");
    assert_ne!(wrapped, documented());
    outlives(&toolkit, &wrapped);
    toolkit.home.assert_nothing_is_left();
}

#[test]
fn a_call_that_fails_runs_once_with_the_documented_configuration_and_twice_with_the_default_of_the_toolkit() {
    let Some(toolkit) = Toolkit::new() else { return };
    let failing = json!([
        { "do": "call", "tool": "order", "times": 1 },
        { "do": "call", "tool": "stuck", "times": 1 },
    ]);
    let told = toolkit.perform(&impatient(), &failing);
    let refused = "MCPToolClient tool call failed: no such order";
    assert_eq!(told[0]["texts"], json!([refused]));
    let timed_out = told[1]["texts"][0].as_str().unwrap_or_default();
    assert!(timed_out.contains("Timed out"), "{timed_out}");
    let runs = || ["call order", "call stuck"].map(|call| toolkit.ledger.count(call));
    assert_eq!(
        runs(),
        [1, 1],
        "an error is an answer, and is not asked for again"
    );

    let told = toolkit.perform(&impatient().replace(NO_REPEATS, ""), &failing);
    assert_eq!(told[0]["texts"], json!([refused]));
    assert_eq!(runs(), [3, 3], "the toolkit repeats both");
    assert_eq!(
        toolkit.starts(),
        1,
        "the server outlives the toolkit and its reconnects"
    );
    toolkit.home.assert_nothing_is_left();
}

/// The configuration without Mainstay.
fn alone(configuration: &str) -> String {
    let direct = configuration.replace("command: mainstay\n", &format!("command: {SERVER}\n"));
    let lines = direct.lines().filter(|line| !line.contains("args:"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// How many of the parallel calls were answered, each with its own answer.
fn answered(told: &Value) -> usize {
    let texts = told["texts"].as_array().expect("a text for each call");
    assert_eq!(texts.len(), PARALLEL, "{told}");
    let answers = answers();
    let expected = answers.as_array().expect("as many");
    texts
        .iter()
        .zip(expected)
        .filter(|(text, own)| text == own)
        .count()
}

#[test]
fn the_nemo_agent_toolkit_alone_starts_a_server_for_each_call_and_loses_most_answers() {
    let Some(toolkit) = Toolkit::new() else { return };
    let told = toolkit.perform(&alone(&impatient().replace(NO_REPEATS, "")), &outliving());
    // It is a race how many are answered before the others have closed their connection.
    let (answered, timed_out) = (
        answered(&told[3]),
        told[3].to_string().matches("Timed out").count(),
    );
    assert!(answered < PARALLEL / 2, "{}", told[3]);
    assert_eq!(answered + timed_out, PARALLEL, "{}", told[3]);
    assert_eq!(toolkit.starts(), 1 + PARALLEL);
    toolkit.home.assert_nothing_is_left();
}

#[test]
fn the_nemo_agent_toolkit_alone_without_its_reconnects_starts_no_server_and_answers_nothing_any_more() {
    let Some(toolkit) = Toolkit::new() else { return };
    let mut steps = outliving();
    let later = json!({ "do": "call", "tool": "lookup", "times": PARALLEL });
    steps.as_array_mut().expect("steps").push(later);
    let told = toolkit.perform(&alone(&impatient()), &steps);
    for after in &told[3..] {
        assert_eq!(answered(after), 0, "{after}");
    }
    assert_eq!(toolkit.starts(), 1);
    toolkit.home.assert_nothing_is_left();
}
