//! The servers behind the gateway, and what can be done with each.

use std::fmt;
use std::path::Path;

use mainstay_partner::{Partner, Partners};
use serde_json::{Value, json};

use super::way::Way;

pub(crate) const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");

/// What a client does with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    List,
    Call,
    Progress,
    Elicitation,
    Sampling,
    Prompts,
    Resources,
}

impl Thing {
    pub(crate) const ALL: [Self; 7] = [
        Self::List,
        Self::Call,
        Self::Progress,
        Self::Elicitation,
        Self::Sampling,
        Self::Prompts,
        Self::Resources,
    ];
}

impl fmt::Display for Thing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::List => "list",
            Self::Call => "call",
            Self::Progress => "progress",
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        })
    }
}

pub(crate) struct Server {
    /// Its name at the gateway.
    pub(crate) name: &'static str,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

impl Server {
    /// One that a Python runs.
    pub(crate) fn of_script(name: &'static str, python: &Path, script: &Path) -> Self {
        Self {
            name,
            command: python.display().to_string(),
            args: vec![script.display().to_string()],
            steps: Vec::new(),
        }
    }
}

/// One thing to do, as the clients are told it, and how it is known to have worked.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) thing: Thing,
    /// The tool, the prompt or the resource, as it is named to the client.
    pub(crate) name: String,
    pub(crate) arguments: Value,
    /// What the answer holds.
    pub(crate) expected: &'static str,
}

/// The servers, those that can do most first.
pub(crate) fn servers(partners: &Partners) -> Vec<Server> {
    vec![
        Server {
            steps: vec![
                // Whatever its client can answer, the reference server has this tool once it knows that, and after those that ask.
                Step::new(Thing::List, "simulate-research-query", json!({}), ""),
                Step::new(Thing::Call, "get-sum", json!({ "a": 2, "b": 3 }), "5"),
                Step::new(
                    Thing::Progress,
                    "trigger-long-running-operation",
                    json!({ "duration": 0.6, "steps": 3 }),
                    "completed",
                ),
                Step::new(
                    Thing::Elicitation,
                    "trigger-elicitation-request",
                    json!({}),
                    "Name: Ada",
                ),
                Step::new(
                    Thing::Sampling,
                    "trigger-sampling-request",
                    json!({ "prompt": "Say something." }),
                    "a sampled answer",
                ),
                Step::new(
                    Thing::Prompts,
                    "args-prompt",
                    json!({ "city": "Ghent" }),
                    "weather in Ghent",
                ),
                Step::new(
                    Thing::Resources,
                    "demo://resource/static/document/architecture.md",
                    json!({}),
                    "Architecture",
                ),
            ],
            ..Server::partner("everything", &partners.everything)
        },
        Server {
            steps: vec![
                Step::new(Thing::List, "convert_time", json!({}), ""),
                Step::new(
                    Thing::Call,
                    "convert_time",
                    json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" }),
                    "T21:00:00+09:00",
                ),
            ],
            ..Server::partner("time", &partners.time)
        },
        Server {
            name: "demo",
            command: MAINSTAY.to_owned(),
            args: vec!["demo-server".to_owned()],
            steps: vec![
                Step::new(Thing::List, "echo", json!({}), ""),
                Step::new(
                    Thing::Call,
                    "echo",
                    json!({ "text": "Hällo, 世界" }),
                    "Hällo, 世界",
                ),
                Step::new(
                    Thing::Progress,
                    "count",
                    json!({ "to": 3, "interval_ms": 200 }),
                    "3",
                ),
                Step::new(
                    Thing::Prompts,
                    "summarize",
                    json!({ "text": "A long story." }),
                    "A long story.",
                ),
                Step::new(Thing::Resources, "demo://about", json!({}), "demo server"),
            ],
        },
    ]
}

impl Server {
    fn partner(name: &'static str, partner: &Partner) -> Self {
        assert!(
            partner.env.is_empty(),
            "a wrapped command has no environment of its own"
        );
        Self {
            name,
            command: partner.command.to_str().expect("a path in UTF-8").to_owned(),
            args: partner.args.clone(),
            steps: Vec::new(),
        }
    }
}

impl Step {
    pub(crate) fn new(thing: Thing, name: &str, arguments: Value, expected: &'static str) -> Self {
        Self {
            thing,
            name: name.to_owned(),
            arguments,
            expected,
        }
    }

    /// The step under the names that this way has for things; a resource has one name everywhere.
    pub(crate) fn through(&self, way: Way, server: &Server) -> Self {
        let name = match (way, self.thing) {
            (Way::Union, Thing::Resources) | (Way::One | Way::Wrap | Way::Connect, _) => self.name.clone(),
            (Way::Union, _) => format!("{}__{}", server.name, self.name),
        };
        Self { name, ..self.clone() }
    }

    /// Whether what a client tells of it is what must have happened; if not, what is wrong.
    pub(crate) fn judge(&self, told: &Value) -> Result<(), String> {
        let lists = |member: &str| {
            let listed = told[member].as_array();
            listed.is_some_and(|listed| listed.contains(&json!(self.name)))
        };
        let answered = told["text"]
            .as_str()
            .is_some_and(|text| text.contains(self.expected))
            && told["is_error"] != true;
        let holds = match self.thing {
            Thing::List => lists("tools"),
            Thing::Call => answered,
            Thing::Progress => answered && is_told_of_progress(&told["heard"]),
            Thing::Elicitation => answered && told["asked"] == json!(["elicitation/create"]),
            Thing::Sampling => answered && told["asked"] == json!(["sampling/createMessage"]),
            Thing::Prompts | Thing::Resources => answered && lists("listed"),
        };
        holds.then_some(()).ok_or_else(|| told.to_string())
    }
}

/// Whether it is the progress of three steps. A client may forget a call with its answer, and what came just before it
/// too: the last step may be missing.
fn is_told_of_progress(heard: &Value) -> bool {
    let heard = heard.as_array().into_iter().flatten();
    let heard: Vec<_> = heard.filter_map(Value::as_f64).collect();
    heard == [1.0, 2.0] || heard == [1.0, 2.0, 3.0]
}
