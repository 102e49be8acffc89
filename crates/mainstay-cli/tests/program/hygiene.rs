//! Nothing of any server is left when the program has ended, however it ends and whatever the server does.

use std::time::{Duration, Instant};

use mainstay_testkit::guarded::comes_true_as_promised;
use mainstay_testkit::{Child, Fault, FaultyServer, Ledger, Step};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::host::Host;
use crate::sandbox::{Ran, Sandbox, finish};
use crate::serving::{LONG, Serving};

/// How soon the program and everything that it started is gone: a second on a quiet machine, the rest is for a busy one.
/// A server that is given the time of the whole ladder takes 4 s.
const GONE_WITHIN: Duration = Duration::from_millis(3500);

/// How long the servers are given to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Given {
    /// So little that a server on a busy machine may be killed before it has noted that it is to stop.
    Default,
    /// More than a second for each of the signals.
    Seconds,
}

impl Given {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[],
            Self::Seconds => &["--stop-within", "3s"],
        }
    }
}

/// How the program is served and started.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Http,
    Stdio,
    Wrap(Kind),
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Eof,
    Term,
    Kill,
}

/// What kind of server stands behind it. All ignore the end of their input and SIGTERM, and note both.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Stubborn,
    /// A shell that waits for the server it has started, and ends by SIGTERM.
    Wrapped,
    /// A shell that waits for the server it has started to its end.
    Awaited,
    /// A server whose child has left its process group, its session and its parent.
    Fled,
    /// A server whose child holds its pipes.
    Clinging,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Stubborn,
        Self::Wrapped,
        Self::Awaited,
        Self::Fled,
        Self::Clinging,
    ];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn server(self, ledger: &Ledger) -> (String, Vec<String>) {
        let stubborn = FaultyServer::new()
            .ledger(ledger)
            .on(Step::Eof, Fault::Hang)
            .notes_term();
        let with = |child: Child| stubborn.clone().on(Step::Start, Fault::Spawn(child));
        let server = match self {
            Self::Stubborn | Self::Wrapped | Self::Awaited => stubborn.clone(),
            Self::Fled => with(Child {
                daemon: true,
                ignores_term: true,
                ..Child::default()
            }),
            Self::Clinging => with(Child {
                holds_pipes: true,
                ignores_term: true,
                ..Child::default()
            }),
        };
        let (command, args) = (server.command(), server.args());
        let script = match self {
            Self::Stubborn | Self::Fled | Self::Clinging => return (command, args),
            Self::Wrapped => r#""$0" "$@"; exit $?"#,
            Self::Awaited => r#"trap : TERM; "$0" "$@"; exit $?"#,
        };
        let mut line = ["-c", script].map(str::to_owned).to_vec();
        line.push(command);
        line.extend(args);
        ("sh".to_owned(), line)
    }

    /// Processes of it that the ledger knows: the server, and its child.
    fn noted(self) -> usize {
        match self {
            Self::Stubborn | Self::Wrapped | Self::Awaited => 1,
            Self::Fled | Self::Clinging => 2,
        }
    }
}

impl Way {
    fn kinds(self) -> Vec<Kind> {
        match self {
            Self::Http | Self::Stdio => Kind::ALL.to_vec(),
            Self::Wrap(kind) => vec![kind],
        }
    }
}

const WAYS: [Way; 7] = [
    Way::Http,
    Way::Stdio,
    Way::Wrap(Kind::Stubborn),
    Way::Wrap(Kind::Wrapped),
    Way::Wrap(Kind::Awaited),
    Way::Wrap(Kind::Fled),
    Way::Wrap(Kind::Clinging),
];

#[test]
fn servers_are_told_twice_to_stop_before_they_are_killed() {
    for way in WAYS {
        leaves_nothing(way, End::Term, Given::Seconds);
        if way != Way::Http {
            leaves_nothing(way, End::Eof, Given::Seconds);
        }
    }
}

/// What only time shows. One after the other: what one of them needs is measured, and not what many of them need together.
mod timing {
    use super::*;

    #[test]
    fn nothing_is_left_within_a_second_of_sigterm_whatever_the_servers_do() {
        for way in WAYS {
            leaves_nothing(way, End::Term, Given::Default);
        }
    }

    #[test]
    fn nothing_is_left_within_a_second_of_the_end_of_the_input_whatever_the_servers_do() {
        for way in WAYS.into_iter().filter(|way| *way != Way::Http) {
            leaves_nothing(way, End::Eof, Given::Default);
        }
    }

    #[test]
    fn nothing_is_left_within_a_second_of_sigkill_whatever_the_servers_do() {
        for way in WAYS {
            leaves_nothing(way, End::Kill, Given::Default);
        }
    }
}

fn leaves_nothing(way: Way, end: End, given: Given) {
    let ledger = Ledger::temporary();
    let servers: Vec<_> = way
        .kinds()
        .iter()
        .map(|kind| (kind.name(), kind.server(&ledger)))
        .collect();
    let config = servers.iter().map(|(name, (command, args))| {
        let entry = json!({ "command": command, "args": args });
        (name.clone(), entry)
    });
    let sandbox = Sandbox::with(&Value::Object(config.collect()));
    let program = match way {
        Way::Http => Program::Http(Serving::start(&sandbox, given.arguments())),
        Way::Stdio => {
            let line = [&["serve", "--stdio", "--quiet"], given.arguments()].concat();
            Program::Stdio(Host::start(&sandbox, &line))
        }
        Way::Wrap(_) => {
            let (command, args) = &servers[0].1;
            let mut line = [&["wrap"], given.arguments(), &["--", command.as_str()]].concat();
            line.extend(args.iter().map(String::as_str));
            Program::Stdio(Host::start(&sandbox, &line))
        }
    };
    let noted: usize = way.kinds().iter().map(|kind| kind.noted()).sum();
    let all_run = |ledger: &Ledger| {
        ledger.pids().len() + ledger.children().len() == noted && ledger.count("list tools") == servers.len()
    };
    assert!(ledger.wait_for(all_run, LONG), "{way:?}: {:?}", ledger.lines());
    let (began, alive) = (Instant::now(), sandbox.tree().pids().len());
    assert!(alive > noted, "{way:?}: the program and {noted} others");
    let ran = program.end(end);
    let ended = began.elapsed();
    let is_gone = match end {
        End::Kill => comes_true_as_promised(GONE_WITHIN, || sandbox.tree().pids().is_empty()),
        End::Eof | End::Term => sandbox.tree().wait_until_gone(LONG),
    };
    assert!(is_gone, "{way:?} {end:?}: left {:?}", sandbox.tree().pids());
    let gone = began.elapsed();
    println!("{way:?} {end:?}: ended after {ended:?}, nothing left after {gone:?}");
    if given == Given::Default && end != End::Kill {
        assert!(gone < GONE_WITHIN, "{way:?} {end:?}: {gone:?}");
    }
    if given == Given::Seconds {
        let (eof, term) = (ledger.count("eof"), ledger.count("term"));
        // What outlives its shell has a fifth of a second to note it.
        let hasty = way.kinds().into_iter().filter(|kind| *kind == Kind::Wrapped);
        assert_eq!(eof, servers.len(), "{way:?} {end:?}: told before it was killed");
        let firm = servers.len() - hasty.count();
        assert!(
            (firm..=servers.len()).contains(&term),
            "{way:?} {end:?}: {term} were told twice"
        );
        // Over HTTP what it says is read elsewhere, on stdio it is to be quiet, and the shell ends by SIGTERM.
        let says = matches!(way, Way::Wrap(kind) if kind != Kind::Wrapped);
        assert_eq!(ran.stderr.contains("did not end in time"), says, "{}", ran.stderr);
    }
    let code = match end {
        End::Eof => Some(0),
        End::Term => Some(143),
        End::Kill => None,
    };
    assert_eq!(ran.code, code, "{way:?} {end:?}");
}

enum Program {
    Http(Serving),
    Stdio(Host),
}

impl Program {
    /// Ends it, and waits for its end.
    fn end(self, end: End) -> Ran {
        let signal = match end {
            End::Eof => None,
            End::Term => Some(Signal::TERM),
            End::Kill => Some(Signal::KILL),
        };
        match (self, signal) {
            (Self::Http(serving), Some(signal)) => {
                serving.signal(signal);
                serving.ended()
            }
            (Self::Http(_), None) => unreachable!("a server over HTTP has no input"),
            (Self::Stdio(host), None) => host.leave(),
            (Self::Stdio(host), Some(signal)) => {
                kill_process(Pid::from_child(&host.child), signal).expect("it runs");
                finish(host.child)
            }
        }
    }
}
