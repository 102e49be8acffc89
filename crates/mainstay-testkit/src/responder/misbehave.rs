//! From a fault to the actions that commit it.

use std::time::Duration;

use serde_json::{Value, json};

use super::message::{Incoming, ScriptedAnswer};
use crate::action::{Action, Signal};
use crate::fault::{AnswerFault, Fault, Flood, Garbage};

/// A string with a byte that no UTF-8 text contains.
const NOT_UTF8: &[u8] = b"\"caf\xe9 \xff\"";

/// What remains of an event after a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It goes on as usual.
    Proceed,
    /// It is answered, badly.
    Bent(AnswerFault),
    /// Nothing more happens.
    Over,
}

/// Adds the actions of `fault`, and says what remains of the event.
pub(super) fn commit(fault: &Fault, request: Option<&Incoming>, actions: &mut Vec<Action>) -> Course {
    match fault {
        Fault::Exit(code) => actions.push(Action::Exit(*code)),
        Fault::Signal(Signal::Stop) => {
            actions.push(Action::Signal(Signal::Stop));
            return Course::Proceed;
        }
        Fault::Signal(signal) => actions.push(Action::Signal(*signal)),
        Fault::Hang => actions.push(Action::Silence),
        Fault::StopReading => actions.extend([Action::Silence, Action::Park]),
        Fault::NoAnswer => {}
        Fault::ExitAtNext(_) => return Course::Proceed,
        Fault::Error { code, message } => {
            actions.extend(request.map(|request| ScriptedAnswer::error(*code, message).to_action(request)));
        }
        Fault::Result(result) => {
            actions
                .extend(request.map(|request| ScriptedAnswer::Result(result.to_string()).to_action(request)));
        }
        Fault::Answer(bad) => return Course::Bent(bad.clone()),
        Fault::Delay { .. }
        | Fault::Chatter { .. }
        | Fault::Work { .. }
        | Fault::Block { .. }
        | Fault::Garbage(_)
        | Fault::Flood { .. }
        | Fault::HugeNotification(_)
        | Fault::CloseStdout
        | Fault::CloseStdin
        | Fault::FillStderr(_)
        | Fault::Spawn(_)
        | Fault::Later { .. } => {
            actions.extend(nuisance(fault, request));
            return Course::Proceed;
        }
    }
    Course::Over
}

/// The spoilt form of `answer`.
pub(super) fn spoil(bad: &AnswerFault, request: &Incoming, answer: &ScriptedAnswer) -> Vec<Action> {
    let id = request.id();
    let whole = answer.text(id);
    let half = whole.as_bytes()[..whole.len() / 2].to_vec();
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"#);
    let only = match bad {
        AnswerFault::InvalidUtf8 => Action::Write([head.as_bytes(), NOT_UTF8, b"}]}}\n"].concat()),
        AnswerFault::HalfJson => Action::Write([&half[..], b"\n"].concat()),
        AnswerFault::Unfinished => Action::Write(half),
        AnswerFault::NoResult => Action::message(&json!({ "jsonrpc": "2.0", "id": id })),
        AnswerFault::ResultIsNumber => Action::message(&json!({ "jsonrpc": "2.0", "id": id, "result": 7 })),
        AnswerFault::WrongId => Action::line(&answer.text(&Value::from("nobody-asked"))),
        AnswerFault::ErrorWithoutId => {
            Action::line(&ScriptedAnswer::error(-32000, "session lost").text(&Value::Null))
        }
        AnswerFault::InBatch => Action::line(&format!("[{whole}]")),
        AnswerFault::Twice => return vec![Action::line(&whole), Action::line(&whole)],
        AnswerFault::Huge(bytes) => Action::WriteFilled {
            head: [head.as_bytes(), b"\""].concat(),
            fill: *bytes,
            tail: b"\"}]}}\n".to_vec(),
        },
    };
    vec![only]
}

/// The actions of faults after which the event goes on.
fn nuisance(fault: &Fault, request: Option<&Incoming>) -> Vec<Action> {
    match fault {
        Fault::Delay { ms } => vec![Action::Wait(Duration::from_millis(*ms))],
        Fault::Chatter { ms, every_ms } => chatter(*ms, *every_ms),
        Fault::Block { ms } => vec![Action::Block(Duration::from_millis(*ms))],
        Fault::Work { ms, of } => vec![Action::Work(Duration::from_millis(*ms), *of)],
        Fault::Garbage(garbage) => vec![rubbish(garbage)],
        Fault::Flood { of, count } => vec![Action::Repeat {
            line: flood_line(*of),
            count: *count,
        }],
        Fault::HugeNotification(bytes) => vec![Action::WriteFilled {
            head: br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":""#
                .to_vec(),
            fill: *bytes,
            tail: b"\"}}\n".to_vec(),
        }],
        Fault::CloseStdout => vec![Action::CloseStdout],
        Fault::CloseStdin => vec![Action::CloseStdin],
        Fault::FillStderr(bytes) => vec![Action::Stderr(stderr_lines(*bytes))],
        Fault::Spawn(child) => vec![Action::Spawn(*child)],
        Fault::Later { ms, then } => {
            let mut aside = vec![Action::Wait(Duration::from_millis(*ms))];
            commit(then, request, &mut aside);
            vec![Action::Aside(aside)]
        }
        Fault::Exit(_)
        | Fault::Signal(_)
        | Fault::Hang
        | Fault::StopReading
        | Fault::NoAnswer
        | Fault::ExitAtNext(_)
        | Fault::Error { .. }
        | Fault::Result(_)
        | Fault::Answer(_) => Vec::new(),
    }
}

fn chatter(ms: u64, every_ms: u64) -> Vec<Action> {
    let every = every_ms.max(1);
    let pauses = ms / every;
    let mut actions = Vec::new();
    for pause in 1..=pauses {
        actions.push(Action::Stderr(
            format!("starting, {pause} of {pauses}\n").into_bytes(),
        ));
        actions.push(Action::Wait(Duration::from_millis(every)));
    }
    actions.push(Action::Wait(Duration::from_millis(ms - pauses * every)));
    actions
}

fn rubbish(garbage: &Garbage) -> Action {
    match garbage {
        Garbage::Text(text) => Action::line(text),
        Garbage::Unbroken(text) => Action::Write(text.clone().into_bytes()),
        Garbage::HalfJson => Action::line(r#"{"jsonrpc":"2.0","id":1,"resu"#),
        Garbage::InvalidUtf8 => Action::Write([NOT_UTF8, b"\xc3\x28\n"].concat()),
        Garbage::WrongShape => Action::line("42\n[1,2]\n{}\n\"text\"\nnull"),
        Garbage::BlankLines => Action::line("\n\r\n  "),
        Garbage::AnswerToNothing => Action::line(r#"{"jsonrpc":"2.0","id":987654321,"result":{}}"#),
        Garbage::UnknownRequest => {
            Action::line(r#"{"jsonrpc":"2.0","id":"why","method":"x/unknown","params":{}}"#)
        }
    }
}

fn flood_line(of: Flood) -> Vec<u8> {
    let (method, params) = match of {
        Flood::ListChanged => ("notifications/tools/list_changed", json!({})),
        Flood::Log => (
            "notifications/message",
            json!({ "level": "info", "data": "flood" }),
        ),
        Flood::Progress => (
            "notifications/progress",
            json!({ "progressToken": "nobody", "progress": 1 }),
        ),
        Flood::Updated => ("notifications/resources/updated", json!({ "uri": "mem://one" })),
        Flood::Unknown => ("notifications/x-unknown", json!({})),
        Flood::Text => return b"x\n".to_vec(),
    };
    format!(
        "{}\n",
        json!({ "jsonrpc": "2.0", "method": method, "params": params })
    )
    .into_bytes()
}

fn stderr_lines(bytes: usize) -> Vec<u8> {
    b"all work and no play makes a dull server, said the log, and said it again.\n"
        .iter()
        .copied()
        .cycle()
        .take(bytes)
        .collect()
}
