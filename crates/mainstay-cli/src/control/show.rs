//! The status of the daemon's servers for a person whose tools stopped working: the table, then each server that is not up
//! with its cause, what happens next and what to do, then the sum.

use mainstay_bridge::VARIABLES_HINT;
use mainstay_control::api::{
    FailureDocument, Footing, ProgramStatus, ServerCount, ServerOrigin, ServerStatus, StateName,
};

use super::say::{between, failure, ink, word};
use crate::login;
use crate::output::{
    Cell, Ink, Paint, Text, count, counted_up, failures, labelled, plain, prose, table_within, text,
};

/// How wide the labels are, with the space behind them.
const LABELS: usize = 11;
/// How far everything is indented.
const INDENT: usize = 2;
/// Lines of stderr that are shown of a server that is down; `mainstay logs` has more.
const STDERR_LINES: usize = 5;

/// The columns that stay however narrow the terminal is: the sign, the name and the state.
const NEEDED_COLUMNS: usize = 3;

/// What is shown.
pub(super) struct StatusPage<'a> {
    pub(super) program: &'a ProgramStatus,
    pub(super) servers: &'a [ServerStatus],
    /// The time now. Countdowns start from here.
    pub(super) now_ms: u64,
    pub(super) paint: Paint,
    pub(super) width: usize,
    /// Whether servers that are well have details, too.
    pub(super) is_verbose: bool,
}

/// The sign of a server before its name.
fn mark(footing: Footing) -> (&'static str, Ink) {
    match footing {
        Footing::Up => ("✔", Ink::Green),
        Footing::Coming => ("◐", Ink::Yellow),
        Footing::Down => ("✖", Ink::Red),
        Footing::Off => ("○", Ink::Dim),
    }
}

/// Says that the configuration file is not applied, and why.
pub(crate) fn not_applied(problem: &str, paint: Paint) -> Text {
    let mut said = text!(
        "{}\n",
        paint.ink(Ink::Red, "the configuration file is not applied:")
    );
    for line in problem.lines() {
        said.push(text!("  {}\n", plain(line)));
    }
    said
}

/// Says that there is no configuration file, and how to get one.
pub(crate) fn no_configuration(paint: Paint) -> Text {
    text!(
        "{}\n  add a server with `mainstay add NAME -- COMMAND`, or take over those of your hosts with `mainstay import`\n",
        paint.ink(Ink::Yellow, "no configuration file exists")
    )
}

impl StatusPage<'_> {
    pub(super) fn text(&self) -> Text {
        let mut text = self.heading();
        if !self.servers.is_empty() {
            text.push("\n");
            // The later ones give way first on a narrow terminal.
            let headings = ["", "server", "state", "for", "tools", "calls", "memory"];
            let headings = headings.into_iter().enumerate().map(|(n, heading)| match n {
                0 => Cell::new(Ink::Dim, " "),
                4..=6 => Cell::number(Ink::Dim, heading),
                _ => Cell::new(Ink::Dim, heading),
            });
            let rows = self.servers.iter().map(|server| self.row(server));
            let rows: Vec<_> = std::iter::once(headings.collect()).chain(rows).collect();
            for line in table_within(self.paint, self.width, NEEDED_COLUMNS, rows) {
                text.push_line(line);
            }
        }
        for server in self.servers {
            text.push(self.details(server));
        }
        text.push("\n");
        text.push(self.sum());
        text
    }

    fn heading(&self) -> Text {
        let program = self.program;
        let mut said = text!(
            "{} {}, process {}, up {}",
            plain(&program.role),
            plain(&program.version),
            program.pid,
            between(self.now_ms, program.started_ms)
        );
        said.push(text!(", {}", count(program.sessions, "session")));
        if let Some(file) = &program.configuration {
            said.push(text!(", {}", plain(file)));
        }
        let mut heading = text!("{}\n", self.paint.dim(said));
        if program.configuration_missing {
            heading.push(no_configuration(self.paint));
        }
        if let Some(problem) = &program.configuration_problem {
            heading.push(not_applied(problem, self.paint));
        }
        heading
    }

    fn row(&self, server: &ServerStatus) -> Vec<Cell> {
        let (mark, mark_ink) = mark(Footing::of(server));
        let tools = server.catalog.map(|catalog| catalog.tools.to_string());
        let calls = match (server.calls.in_flight, server.calls.waiting) {
            (0, 0) => String::new(),
            (running, 0) => format!("{running} running"),
            (0, waiting) => format!("{waiting} waiting"),
            (running, waiting) => format!("{running} running, {waiting} waiting"),
        };
        let memory = server.process.and_then(|process| process.resident_bytes);
        vec![
            Cell::new(mark_ink, mark),
            Cell::new(Ink::Cyan, &server.name),
            Cell::new(ink_of(server), state(server)),
            Cell::new(Ink::None, between(self.now_ms, server.since_ms)),
            Cell::number(Ink::None, tools.unwrap_or_default()),
            Cell::number(Ink::None, calls),
            Cell::number(Ink::Dim, memory.map(mebibytes).unwrap_or_default()),
        ]
    }

    /// Everything about a server that is not up, that holds calls back, or that does not answer. Nothing about one that is
    /// well.
    fn details(&self, server: &ServerStatus) -> Text {
        let footing = Footing::of(server);
        let held = server.calls_held_until_ms.filter(|until| *until > self.now_ms);
        let silent = server.silent_since_ms.filter(|_| footing == Footing::Up);
        let is_well = footing == Footing::Up && held.is_none() && silent.is_none();
        if footing == Footing::Off || is_well {
            return self.more_details(server);
        }
        let beside = match footing {
            Footing::Down => self.paint.ink(Ink::Red, "is down"),
            Footing::Coming => self.paint.ink(Ink::Yellow, "is not up yet"),
            Footing::Up if silent.is_some() => self.paint.ink(Ink::Yellow, "does not answer"),
            Footing::Up => self.paint.ink(Ink::Yellow, "asked for a pause"),
            Footing::Off => Text::default(),
        };
        let mut text = text!("\n{}  {}\n", self.paint.bold(plain(&server.name)), beside);
        if let Some(target) = &server.target {
            text.push(self.verbatim("runs", std::slice::from_ref(target)));
        }
        if let (Some(failed), true) = (&server.last_failure, footing != Footing::Up) {
            text.push(self.prose("cause", Ink::Red, failure(failed)));
            text.push(self.verbatim("stderr", &last_lines(failed)));
            if let Some(login) = &failed.login {
                text.push(self.verbatim("login", login.resource_metadata.as_slice()));
            }
        }
        if let Some(since) = silent {
            let silence = text!(
                "it has sent nothing for {}, and did not answer a ping",
                between(self.now_ms, since)
            );
            text.push(self.prose("cause", Ink::Yellow, silence));
        }
        text.push(self.prose("next", Ink::None, self.next(server, held, silent)));
        if let Some(remedy) = remedy(server, footing) {
            text.push(self.prose("remedy", Ink::None, remedy));
        }
        if ended_while_starting(server) {
            text.push(self.prose("note", Ink::None, VARIABLES_HINT));
        }
        text.push(self.set_aside_and_failed(server));
        text
    }

    /// What a verbose status says of a server that is well.
    fn more_details(&self, server: &ServerStatus) -> Text {
        let said = self.set_aside_and_failed(server);
        match said.is_empty() {
            true => said,
            false => text!("\n{}\n{}", self.paint.bold(plain(&server.name)), said),
        }
    }

    /// What is set aside of its offers, and how its calls failed. Only a verbose status says it.
    fn set_aside_and_failed(&self, server: &ServerStatus) -> Text {
        let mut text = Text::default();
        if !self.is_verbose {
            return text;
        }
        for found in &server.set_aside {
            text.push(self.prose("set aside", Ink::Yellow, plain(found)));
        }
        let failed = server.call_failures.iter();
        let failed = failed.map(|failed| text!("{} {}", failed.calls, plain(&failed.error)));
        let failed = Text::join(failed, ", ");
        if !failed.is_empty() {
            text.push(self.prose("failed", Ink::Yellow, text!("calls: {}", failed)));
        }
        text
    }

    /// What happens next without a command.
    fn next(&self, server: &ServerStatus, held: Option<u64>, silent: Option<u64>) -> Text {
        if let Some(until) = held {
            return text!("calls go to it again in {}", between(until, self.now_ms));
        }
        match (silent, server.calls.in_flight) {
            (None, _) => {}
            (Some(_), 0) => return "it is replaced if it does not answer the next ping either".into(),
            (Some(_), running) => {
                return text!(
                    "it may be at work: {} running, until it answers or the time limit of the call is over",
                    count(running, "call")
                );
            }
        }
        if let Some(start) = &server.start {
            let doing = match (start.stage.as_str(), &start.program) {
                ("waiting", _) => "it waits for its turn to start".into(),
                ("installing", Some(program)) => text!("it is being installed by {}", plain(program)),
                ("installing", None) => "it is being installed".into(),
                ("listing", _) => "it has answered, and has not listed what it offers yet".into(),
                ("unanswered", _) => "it runs, and has not answered yet".into(),
                _ => Text::from("it is being started"),
            };
            return text!("{}, for {}", doing, between(self.now_ms, start.since_ms));
        }
        let attempt = server.attempt.saturating_add(1);
        match (server.next_retry_ms, server.state) {
            // A refused token costs no budget.
            (Some(next), _)
                if next > self.now_ms
                    && attempt <= server.budget
                    && reason(server) != Some("auth_required") =>
            {
                text!(
                    "attempt {} of {} in {}",
                    attempt,
                    server.budget,
                    between(next, self.now_ms)
                )
            }
            (Some(next), _) if next > self.now_ms => {
                text!(
                    "it is tried again in {}, and slowly from then on",
                    between(next, self.now_ms)
                )
            }
            (Some(_), _) => "it is being tried again".into(),
            (None, StateName::Connecting | StateName::Reconnecting) => "it is being connected".into(),
            (None, StateName::Disconnected) if reason(server) == Some("lost") => {
                "nothing, until a call or a person starts it".into()
            }
            (None, _) => "nothing, until you act".into(),
        }
    }

    fn sum(&self) -> Text {
        let of = |footing| {
            let servers = self.servers.iter();
            servers
                .filter(|server| Footing::of(server) == footing)
                .map(|server| server.name.as_str())
                .collect::<Vec<_>>()
        };
        let [coming, down, off] = [Footing::Coming, Footing::Down, Footing::Off].map(of);
        let counted = ServerCount::of(self.servers.iter().map(Footing::of));
        if self.servers.is_empty() {
            return text!("{}\n", self.paint.ink(Ink::Yellow, "there are no servers"));
        }
        let ink = match (down.is_empty(), coming.is_empty()) {
            (true, true) => Ink::Green,
            (true, false) => Ink::Yellow,
            (false, _) => Ink::Red,
        };
        let mut text = self.paint.ink(ink, counted_up(counted));
        for (what, servers) in [("down", down), ("not up yet", coming), ("disabled", off)] {
            if !servers.is_empty() {
                text.push(text!("; {}: {}", what, super::say::names(&servers)));
            }
        }
        text.push("\n");
        text
    }

    fn prose(&self, label: &'static str, ink: Ink, text: impl AsRef<str>) -> Text {
        let room = self.width.saturating_sub(INDENT + LABELS);
        let lines: Vec<_> = prose(text, room)
            .iter()
            .map(|line| self.paint.ink(ink, line))
            .collect();
        labelled(self.paint, label, LABELS, &lines)
    }

    /// Lines from elsewhere, cleaned and not wrapped: they are to be copied, or their author aligned them.
    fn verbatim(&self, label: &'static str, lines: &[String]) -> Text {
        let lines: Vec<Text> = lines.iter().map(|line| plain(line)).collect();
        labelled(self.paint, label, LABELS, &lines)
    }
}

/// The last lines of stderr. If none of them is the reason, it comes first.
fn last_lines(failed: &FailureDocument) -> Vec<String> {
    let first = failed.stderr.len().saturating_sub(STDERR_LINES);
    let mut lines = failed.stderr[first..].to_vec();
    if let Some(reason) = &failed.stderr_reason
        && !lines.iter().any(|line| line.contains(reason.as_str()))
        && let Some(oldest) = lines.first_mut()
    {
        oldest.clone_from(reason);
    }
    lines
}

/// What a person can do.
fn remedy(server: &ServerStatus, footing: Footing) -> Option<Text> {
    let name = plain(&server.name);
    if footing == Footing::Up && server.silent_since_ms.is_some() {
        return Some(text!(
            "`mainstay restart {}` ends its calls and starts it again",
            name
        ));
    }
    if footing != Footing::Down {
        return server
            .next_retry_ms
            .map(|_| text!("`mainstay restart {}` tries at once", name));
    }
    Some(match reason(server) {
        Some("auth_required") => match (server.credential.as_deref(), server.origin) {
            (Some("configured"), ServerOrigin::AdHoc) => {
                "the token that its host gives it was refused: replace it there, then start the host again"
                    .into()
            }
            (Some("configured"), _) => text!(
                "the token of the configuration was refused: replace it, then `mainstay restart {}`",
                name
            ),
            (Some("none"), _) => text!(
                "give it a token in the configuration, which turns logins off, then `mainstay restart {}`",
                name
            ),
            (_, origin) => {
                // No configuration has the name of a server that a host brought.
                let address = server.target.as_ref().filter(|_| origin == ServerOrigin::AdHoc);
                let command = login::command(address.unwrap_or(&server.name));
                text!("`{}`, or give it a token in the configuration", plain(&command))
            }
        },
        Some("budget_spent" | "lost") => {
            text!("correct the cause; `mainstay restart {}` tries at once", name)
        }
        // A server that never ran wrote nothing to stderr.
        _ if server.stderr.is_empty() => text!("correct the cause, then `mainstay restart {}`", name),
        _ => text!(
            "correct the cause, then `mainstay restart {}`; `mainstay logs {}` has more of its stderr",
            name,
            name
        ),
    })
}

/// Whether a host brought the server, and its process ended before it was of any use.
fn ended_while_starting(server: &ServerStatus) -> bool {
    let exited = |failed: &FailureDocument| failed.exit_code.is_some() || failed.signal.is_some();
    server.origin == ServerOrigin::AdHoc
        && server.attempt > 0
        && server.last_failure.as_ref().is_some_and(exited)
}

fn reason(server: &ServerStatus) -> Option<&str> {
    server.reason.as_deref()
}

fn ink_of(server: &ServerStatus) -> Ink {
    match Footing::of(server) {
        Footing::Up => Ink::Green,
        Footing::Coming | Footing::Down | Footing::Off => ink(server.state),
    }
}

/// The state in words, with its reason or the failures so far.
fn state(server: &ServerStatus) -> String {
    let word = word(server.state);
    match (server.attempt, reason(server)) {
        (0, None) => word.to_owned(),
        (0, Some(reason)) => format!("{word} ({reason})"),
        (attempt, _) => format!("{word} ({})", failures(attempt, server.budget)),
    }
}

fn mebibytes(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    format!("{} MiB", bytes.div_ceil(MIB))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    /// A server that is connected, with these members in the place of its own.
    fn server(name: &str, members: Value) -> ServerStatus {
        let mut server = json!({
            "name": name, "node": null, "origin": "configured", "target": format!("npx -y {name}"),
            "state": "connected", "up": true, "reason": null, "desired": "enabled",
            "since_ms": NOW - 3 * 3_600_000, "generation": 7, "attempt": 0, "budget": 10,
            "next_retry_ms": null, "calls_held_until_ms": null, "silent_since_ms": null, "start": null,
            "last_failure": null,
            "stderr": [], "era": "legacy", "protocol_version": "2025-11-25", "transport": "stdio",
            "catalog": { "tools": 12, "prompts": 0, "resources": 0, "templates": 0,
                         "listed_ms": NOW - 1000, "stale_since_ms": null },
            "calls": { "waiting": 0, "in_flight": 0, "total": 5, "answered": 5, "errors": 0, "not_sent": 0,
                       "refused": 0, "unknown": 0, "cancelled": 0, "last_success_ms": null,
                       "p50_us": null, "p95_us": null },
            "process": null, "starts": 1, "stale_reports": 0, "sessions": [],
        });
        let Value::Object(members) = members else {
            panic!("an object")
        };
        for (key, value) in members {
            server[key] = value;
        }
        serde_json::from_value(server).expect("a server")
    }

    fn failed(message: &str, stderr: &[&str]) -> Value {
        json!({ "message": message, "generation": 7, "exit_code": 1, "signal": null, "stderr": stderr,
                "stderr_reason": null, "login": null })
    }

    fn program() -> ProgramStatus {
        let program = json!({
            "version": "0.1.0", "role": "daemon", "node": null, "instance": "x", "pid": 4711,
            "started_ms": NOW - 7_200_000, "configuration": "/home/ann/.config/mainstay/mcp.json",
            "servers": 6, "connected": 2, "sessions": 3, "last_event": 9,
        });
        serde_json::from_value(program).expect("a program")
    }

    fn shown(servers: &[ServerStatus]) -> String {
        let program = program();
        let page = StatusPage {
            program: &program,
            servers,
            now_ms: NOW,
            paint: Paint::PLAIN,
            width: 100,
            is_verbose: false,
        };
        page.text().as_str().to_owned()
    }

    #[test]
    fn one_look_says_what_is_wrong_since_when_why_what_comes_and_what_to_do() {
        let servers = [
            server(
                "files",
                json!({ "calls": { "waiting": 0, "in_flight": 2, "total": 5, "answered": 3, "errors": 0,
                    "not_sent": 0, "refused": 0, "unknown": 0, "cancelled": 0, "last_success_ms": null,
                    "p50_us": null, "p95_us": null },
                    "process": { "pid": 9, "processes": 2, "resident_bytes": 47_000_000, "cpu_ms": 10 } }),
            ),
            server(
                "github",
                json!({ "state": "permanently_failed", "up": false, "since_ms": NOW - 3_000_000,
                    "target": "docker run ghcr.io/github/github-mcp-server", "catalog": null,
                    "last_failure": failed("the program `docker` was not found", &[]) }),
            ),
            server(
                "issues",
                json!({ "state": "disconnected", "up": false, "reason": "auth_required", "catalog": null,
                    "target": "https://mcp.example.com/mcp",
                    "last_failure": failed("HTTP status 401: the server asks for a login", &[]) }),
            ),
            server(
                "notes",
                json!({ "state": "disabled", "up": false, "desired": "disabled" }),
            ),
            server(
                "rest",
                json!({ "state": "disconnected", "reason": "idle", "transport": null }),
            ),
            server(
                "web",
                json!({ "state": "reconnecting", "up": false, "attempt": 3, "since_ms": NOW - 42_000,
                    "next_retry_ms": NOW + 12_000,
                    "last_failure": failed("it exited with status 1", &["Error: cannot find my database"]) }),
            ),
        ];
        let expected = "\
daemon 0.1.0, process 4711, up 2 h, 3 sessions, /home/ann/.config/mainstay/mcp.json

   server  state                            for     tools      calls  memory
✔  files   connected                        3 h        12  2 running  45 MiB
✖  github  permanently_failed               50 min
✖  issues  disconnected (auth_required)     3 h
○  notes   disabled                         3 h        12
✔  rest    disconnected (idle)              3 h        12
◐  web     reconnecting (3 of 10 failures)  42 s       12

github  is down
  runs       docker run ghcr.io/github/github-mcp-server
  cause      the program `docker` was not found
  next       nothing, until you act
  remedy     correct the cause, then `mainstay restart github`

issues  is down
  runs       https://mcp.example.com/mcp
  cause      HTTP status 401: the server asks for a login
  next       nothing, until you act
  remedy     `mainstay login issues`, or give it a token in the configuration

web  is not up yet
  runs       npx -y web
  cause      it exited with status 1
  stderr     Error: cannot find my database
  next       attempt 4 of 10 in 12 s
  remedy     `mainstay restart web` tries at once

2 of 5 servers up; down: github, issues; not up yet: web; disabled: notes
";
        let shown = shown(&servers);
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn a_narrow_terminal_keeps_names_and_states_and_no_line_of_the_table_is_longer() {
        let mut all = [
            server(
                "files",
                json!({ "process": { "pid": 9, "processes": 2, "resident_bytes": 1, "cpu_ms": 1 } }),
            ),
            server(
                "web",
                json!({ "state": "reconnecting", "up": false, "attempt": 11 }),
            ),
        ];
        Footing::sort(&mut all);
        let program = program();
        let shown = |width: usize| {
            let page = StatusPage {
                program: &program,
                servers: &all,
                now_ms: NOW,
                paint: Paint::PLAIN,
                width,
                is_verbose: false,
            };
            let text = page.text();
            let lines: Vec<String> = text.as_str().lines().skip(2).take(3).map(str::to_owned).collect();
            lines
        };
        assert_eq!(
            shown(80),
            [
                "   server  state                       for  tools  calls  memory",
                "◐  web     reconnecting (11 failures)  3 h     12",
                "✔  files   connected                   3 h     12          1 MiB",
            ]
        );
        assert_eq!(
            shown(44),
            [
                "   server  state                       for",
                "◐  web     reconnecting (11 failures)  3 h",
                "✔  files   connected                   3 h",
            ]
        );
    }

    #[test]
    fn a_login_is_the_remedy_only_where_one_can_be_made() {
        let remedy = |members: Value| {
            let mut server = server("web", members);
            (server.state, server.up) = (StateName::Disconnected, false);
            server.reason = Some("auth_required".to_owned());
            remedy(&server, Footing::of(&server))
                .expect("a remedy")
                .as_str()
                .to_owned()
        };
        for (members, said) in [
            (
                json!({}),
                "`mainstay login web`, or give it a token in the configuration",
            ),
            (
                json!({ "credential": "login" }),
                "`mainstay login web`, or give it a token in the configuration",
            ),
            (
                json!({ "credential": "login", "origin": "ad_hoc", "target": "https://mcp.example.com/mcp" }),
                "`mainstay login https://mcp.example.com/mcp`, or give it a token in the configuration",
            ),
            (
                json!({ "credential": "configured" }),
                "the token of the configuration was refused: replace it, then `mainstay restart web`",
            ),
            (
                json!({ "credential": "configured", "origin": "ad_hoc" }),
                "the token that its host gives it was refused: replace it there, then start the host again",
            ),
            (
                json!({ "credential": "none" }),
                "give it a token in the configuration, which turns logins off, then `mainstay restart web`",
            ),
        ] {
            assert_eq!(remedy(members), said);
        }
    }

    #[test]
    fn a_server_that_is_being_installed_or_asked_for_a_pause_says_so() {
        let installing = json!({ "state": "connecting", "up": false, "catalog": null,
            "start": { "stage": "installing", "since_ms": NOW - 34_000, "program": "npm" } });
        let text = shown(&[server("slow", installing)]);
        assert!(
            text.contains("next       it is being installed by npm, for 34 s"),
            "{text}"
        );
        let text = shown(&[server("busy", json!({ "calls_held_until_ms": NOW + 30_000 }))]);
        assert!(text.contains("busy  asked for a pause"), "{text}");
        assert!(text.contains("next       calls go to it again in 30 s"), "{text}");
    }

    #[test]
    fn a_server_that_is_up_and_does_not_answer_says_so() {
        let mut silent = server("quiet", json!({ "silent_since_ms": NOW - 45_000 }));
        let text = shown(&[silent.clone()]);
        assert!(text.contains("quiet  does not answer"), "{text}");
        assert!(
            text.contains("cause      it has sent nothing for 45 s, and did not answer a ping"),
            "{text}"
        );
        assert!(text.contains("next       it is replaced if"), "{text}");
        silent.calls.in_flight = 2;
        let text = shown(&[silent]);
        assert!(
            text.contains("next       it may be at work: 2 calls running"),
            "{text}"
        );
        assert!(
            text.contains("remedy     `mainstay restart quiet` ends its calls"),
            "{text}"
        );
        assert!(text.contains("1 of 1 server up"), "{text}");
    }

    #[test]
    fn what_a_server_says_does_not_drive_the_terminal() {
        let evil = json!({ "state": "permanently_failed", "up": false,
            "target": "x\u{1b}[2J", "last_failure": failed("a\u{1b}]0;b\u{7}c\nd", &["\u{9b}31m"]) });
        let text = shown(&[server("evil\u{1b}[1m", evil)]);
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{text:?}");
    }

    #[test]
    fn a_verbose_status_says_what_is_set_aside_and_how_calls_failed_and_a_plain_one_does_not() {
        let servers = [
            server("well", json!({})),
            server(
                "files",
                json!({ "set_aside": ["tool `c`: is set aside:\u{1b}[2J `a__c` is already tool `c` of server `a`"],
                    "call_failures": [{ "error": "timeout", "calls": 2 }, { "error": "-32602", "calls": 1 }] }),
            ),
        ];
        assert!(!shown(&servers).contains("set aside"));
        let program = program();
        let page = StatusPage {
            program: &program,
            servers: &servers,
            now_ms: NOW,
            paint: Paint::PLAIN,
            width: 100,
            is_verbose: true,
        };
        let text = page.text();
        let expected = "
files
  set aside  tool `c`: is set aside: `a__c` is already tool `c` of server `a`
  failed     calls: 2 timeout, 1 -32602

2 of 2 servers up
";
        assert!(text.as_str().ends_with(expected), "{}", text.as_str());
        assert!(!text.as_str().contains("\nwell\n"));
    }

    #[test]
    fn no_server_at_all_is_said() {
        assert!(shown(&[]).ends_with("there are no servers\n"));
    }
}
