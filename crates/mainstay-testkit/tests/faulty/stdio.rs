//! The process: that it answers, and that a handful of its faults are really there.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use mainstay_testkit::poll::{self, LIMIT};
use mainstay_testkit::procfs::{ProcTree, group_of, is_alive};
use mainstay_testkit::{AnswerFault, Fault, FaultyServer, Flood, Ledger, Rule, Script, Signal, Step};
use serde_json::{Value, json};

struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    next_id: u64,
}

impl Client {
    fn start(server: &FaultyServer) -> Self {
        let mut child = Command::new(server.command())
            .args(server.args())
            .envs(server.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("start faulty-server");
        let stdin = child.stdin.take();
        let lines = read_lines(child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            lines,
            next_id: 1,
        }
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        id
    }

    /// The next line, empty when there is no more.
    fn line(&mut self) -> Vec<u8> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => Vec::new(),
            Err(RecvTimeoutError::Timeout) => panic!("no line within {LIMIT:?}"),
        }
    }

    fn wait(&mut self) -> ExitStatus {
        let ended = poll::look_for(LIMIT, || self.child.try_wait().unwrap());
        ended.unwrap_or_else(|| panic!("still running after {LIMIT:?}"))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let line = self.line();
        let answer: Value = serde_json::from_slice(&line).expect("a JSON answer");
        assert_eq!(answer["id"], id);
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }
}

fn read_lines(stdout: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        while stdout.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    lines
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// Ends what is left of a tree, even when the test fails.
struct Cleanup(ProcTree);

impl Drop for Cleanup {
    fn drop(&mut self) {
        for pid in self
            .0
            .pids()
            .into_iter()
            .filter_map(rustix::process::Pid::from_raw)
        {
            let _gone_already = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[test]
fn it_answers_as_a_server_should_keeps_its_ledger_and_exits_when_its_input_ends() {
    let ledger = Ledger::temporary();
    let mut client = Client::start(&FaultyServer::new().tool("extra").ledger(&ledger));
    let hello = client.ask("initialize", &json!({ "protocolVersion": "2025-06-18" }));
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    let tools = client.ask("tools/list", &json!({}));
    let names: Vec<_> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert!(names.contains(&&json!("echo")) && names.contains(&&json!("extra")));
    assert_eq!(
        client.call("echo", &json!({ "key": "k1" }))["result"]["structuredContent"]["key"],
        "k1"
    );
    assert_eq!(
        client.call("pid", &json!({}))["result"]["structuredContent"]["pid"],
        client.pid()
    );
    drop(client.stdin.take());
    assert!(client.wait().success());
    let start = format!("start {}", client.child.id());
    assert_eq!(
        ledger.lines(),
        [
            &start,
            "initialize 2025-06-18",
            "list tools",
            "call echo k1",
            "call pid -",
            "eof"
        ]
    );
    assert_eq!(ledger.count("call"), 2);
}

#[test]
fn a_commit_is_in_the_ledger_of_a_server_that_died_before_it_answered() {
    let ledger = Ledger::temporary();
    let mut client = Client::start(&FaultyServer::new().ledger(&ledger));
    client.send(
        "tools/call",
        &json!({ "name": "commit_then_die", "arguments": { "key": "a" } }),
    );
    assert_eq!(client.line(), b"");
    assert_eq!(client.wait().code(), Some(9));
    assert_eq!(ledger.count("call commit_then_die a"), 1);
}

#[test]
fn it_exits_when_probed_but_only_in_its_first_process() {
    let ledger = Ledger::temporary();
    let rule = Rule::new(Step::Discover, Fault::Exit(4)).first_starts(1);
    let server = FaultyServer::new().rule(rule).ledger(&ledger);
    let mut first = Client::start(&server);
    first.send("server/discover", &json!({}));
    assert_eq!(first.wait().code(), Some(4));
    let mut second = Client::start(&server);
    assert_eq!(second.ask("server/discover", &json!({}))["error"]["code"], -32601);
    assert_eq!(ledger.count("start"), 2);
}

#[test]
fn a_sleeping_call_blocks_no_other() {
    let mut client = Client::start(&FaultyServer::new());
    let slow = client.send(
        "tools/call",
        &json!({ "name": "sleep_ms", "arguments": { "ms": 200 } }),
    );
    client.ask("ping", &json!({}));
    let late: Value = serde_json::from_slice(&client.line()).unwrap();
    assert_eq!(late["id"], slow);
}

#[test]
fn an_answer_can_be_invalid_utf8_with_the_right_id() {
    let mut client =
        Client::start(&FaultyServer::new().on(Step::Call, Fault::Answer(AnswerFault::InvalidUtf8)));
    client.send("tools/call", &json!({ "name": "echo" }));
    let line = client.line();
    assert!(line.starts_with(br#"{"jsonrpc":"2.0","id":1,"result""#));
    assert!(std::str::from_utf8(&line).is_err());
    client.ask("ping", &json!({}));
}

#[test]
fn a_huge_line_is_as_long_as_asked_and_is_one_json_message() {
    const BYTES: usize = 20_000_000;
    let mut client =
        Client::start(&FaultyServer::new().on(Step::Call, Fault::Answer(AnswerFault::Huge(BYTES))));
    client.send("tools/call", &json!({ "name": "echo" }));
    let line = client.line();
    assert!((BYTES..BYTES + 200).contains(&line.len()), "{}", line.len());
    assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["id"], 1);
}

#[test]
fn a_flood_comes_before_the_answer() {
    let flood = Fault::Flood {
        of: Flood::ListChanged,
        count: 5000,
    };
    let mut client = Client::start(&FaultyServer::new().on(Step::Ping, flood));
    client.send("ping", &json!({}));
    for _ in 0..5000 {
        assert!(client.line().windows(12).any(|part| part == b"list_changed"));
    }
    assert_eq!(serde_json::from_slice::<Value>(&client.line()).unwrap()["id"], 1);
}

#[test]
fn it_can_be_killed_by_its_own_signal() {
    let mut client = Client::start(&FaultyServer::new().on(Step::Initialize, Fault::Signal(Signal::Abrt)));
    client.send("initialize", &json!({}));
    assert_eq!(client.wait().signal(), Some(6));
}

#[test]
fn it_can_die_by_itself_a_while_after_a_request_it_answered() {
    let mut client = Client::start(&FaultyServer::new().on(Step::Ping, Fault::Exit(6).after_ms(20)));
    client.ask("ping", &json!({}));
    assert_eq!(client.wait().code(), Some(6));
}

#[test]
fn closed_stdout_reads_as_the_end_while_the_process_lives() {
    let ledger = Ledger::temporary();
    let mut client = Client::start(
        &FaultyServer::new()
            .on(Step::Ping, Fault::CloseStdout)
            .ledger(&ledger),
    );
    client.send("ping", &json!({}));
    assert_eq!(client.line(), b"");
    client.send("tools/list", &json!({}));
    assert!(ledger.wait_for(|ledger| ledger.count("list tools") == 1, LIMIT));
    assert!(is_alive(client.pid()));
}

#[test]
fn closed_stdin_breaks_the_clients_pipe_while_the_process_lives() {
    let mut client = Client::start(&FaultyServer::new().on(Step::Ping, Fault::CloseStdin));
    client.ask("ping", &json!({}));
    let written = writeln!(client.stdin.as_mut().unwrap(), "{{}}");
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    assert!(is_alive(client.pid()));
}

#[test]
fn it_survives_the_end_of_its_input_and_sigterm_when_told_to() {
    let ledger = Ledger::temporary();
    let server = FaultyServer::new()
        .on(Step::Eof, Fault::Hang)
        .ledger(&ledger)
        .ignores_term();
    let mut client = Client::start(&server);
    client.ask("ping", &json!({}));
    assert_eq!(ledger.pids(), [client.pid()]);
    drop(client.stdin.take());
    assert!(ledger.wait_for(|ledger| ledger.count("eof") == 1, LIMIT));
    let pid = rustix::process::Pid::from_raw(client.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap()
        .trim();
    assert_ne!(
        u64::from_str_radix(ignored, 16).unwrap() & (1 << 14),
        0,
        "SIGTERM is ignored"
    );
    assert!(client.child.try_wait().unwrap().is_none());
}

#[test]
fn what_its_group_is_told_by_sigterm_is_noted_and_it_lives_on() {
    let ledger = Ledger::temporary();
    let server = FaultyServer::new().ledger(&ledger).notes_term();
    let mut client = Client::start(&server);
    client.ask("ping", &json!({}));
    let group = rustix::process::Pid::from_raw(client.pid()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::TERM).unwrap();
    assert!(ledger.wait_for(|ledger| ledger.count("term") == 1, LIMIT));
    client.ask("ping", &json!({}));
}

#[test]
fn children_and_daemons_outlive_it_and_are_found_by_their_environment() {
    let mark = std::process::id().to_string();
    let tree = ProcTree::marked("TESTKIT_TREE", &mark);
    let cleanup = Cleanup(tree.clone());
    let ledger = Ledger::temporary();
    let child = mainstay_testkit::Child::default();
    let daemon = mainstay_testkit::Child {
        daemon: true,
        ..child
    };
    let server = FaultyServer::new()
        .on(Step::Ping, Fault::Spawn(child))
        .on(Step::Ping, Fault::Spawn(daemon))
        .env_var("TESTKIT_TREE", &mark)
        .ledger(&ledger);
    let mut client = Client::start(&server);
    client.ask("ping", &json!({}));
    assert!(ledger.wait_for(|ledger| ledger.children().len() == 2, LIMIT));
    drop(client);
    let mut left = tree.pids();
    let mut children = ledger.children();
    left.sort_unstable();
    children.sort_unstable();
    assert_eq!(left, children);
    assert_ne!(group_of(left[0]), group_of(left[1]), "the daemon left the group");
    drop(cleanup);
    assert!(tree.wait_until_gone(LIMIT));
}

#[test]
fn it_chatters_on_stderr_while_it_starts_slowly() {
    let server = FaultyServer::new().on(Step::Start, Fault::Chatter { ms: 60, every_ms: 20 });
    let began = Instant::now();
    let mut child = Command::new(server.command())
        .args(server.args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(began.elapsed() >= Duration::from_millis(60));
    assert_eq!(said.lines().count(), 3);
}

#[test]
fn tools_are_read_anew_from_their_file_at_each_listing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tools.json");
    std::fs::write(&file, r#"[{"name":"one","inputSchema":{"type":"object"}}]"#).unwrap();
    let mut client = Client::start(&FaultyServer::from(Script::new().tools_file(&file)));
    assert_eq!(
        client.ask("tools/list", &json!({}))["result"]["tools"][0]["name"],
        "one"
    );
    std::fs::write(&file, r#"[{"name":"two","inputSchema":{"type":"object"}}]"#).unwrap();
    assert_eq!(
        client.ask("tools/list", &json!({}))["result"]["tools"][0]["name"],
        "two"
    );
    std::fs::remove_file(&file).unwrap();
    assert_eq!(client.ask("tools/list", &json!({}))["error"]["code"], -32603);
}

#[test]
fn a_script_that_cannot_be_read_is_said_on_stderr() {
    let output = Command::new(FaultyServer::new().command())
        .args(["--script", "{oops"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the script is not valid"));
}
