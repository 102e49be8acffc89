//! How long requests took, by method, tool and error, for metrics.
//!
//! The number of series is bounded: methods and errors are those in the tables here, and only so many tools have a place of
//! their own; everything else counts as `other`. Counting a request whose tool is known takes no lock and allocates nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use memchr::memmem::Finder;

use super::counts::{DurationCounts, DurationHistogram};
use super::error::{CallError, CallErrorKind};
use crate::wire::{Object, Outcome, RawJson, RpcError};

/// The name of methods and tools that have no place of their own.
const OTHER: &str = "other";

/// The methods that are counted separately. The last one stands for all others.
const METHODS: [&str; 21] = [
    "tools/call",
    "tools/list",
    "prompts/get",
    "prompts/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "completion/complete",
    "logging/setLevel",
    "initialize",
    "server/discover",
    "ping",
    "subscriptions/listen",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/cancel",
    "tasks/update",
    OTHER,
];

/// The method whose requests are counted by tool.
const TOOLS_CALL: &str = METHODS[0];

/// Tools of one server that are counted separately.
const TOOLS_LIMIT_PER_SERVER: usize = 200;

/// Tools of all servers that are counted separately. A tool takes about 20 lines of an exposition.
const TOOLS_LIMIT: usize = 1_000;

/// Results that are searched for the tool's own error flag, in bytes. A longer one counts as a success: an error is short,
/// and the search would cost a large result more than everything else here.
const SEARCHED_LIMIT: usize = 64 * 1024;

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationError {
    /// The tool says that it failed (`isError`).
    Tool,
    /// It was not sent.
    NotSent,
    /// The server refused it without running it.
    Refused,
    /// It may have run.
    Unknown,
    /// The server did not answer in time.
    Timeout,
    /// Its caller gave it up.
    Cancelled,
    /// It was answered with this JSON-RPC error.
    Rpc(i64),
}

/// The errors that are counted separately. JSON-RPC errors with other codes count as the last one.
const ERRORS: [(OperationError, &str); 15] = [
    (OperationError::Tool, "tool_error"),
    (OperationError::NotSent, "not_sent"),
    (OperationError::Refused, "refused"),
    (OperationError::Unknown, "unknown"),
    (OperationError::Timeout, "timeout"),
    (OperationError::Cancelled, "cancelled"),
    (OperationError::Rpc(RpcError::PARSE_ERROR), "-32700"),
    (OperationError::Rpc(RpcError::INVALID_REQUEST), "-32600"),
    (OperationError::Rpc(RpcError::METHOD_NOT_FOUND), "-32601"),
    (OperationError::Rpc(RpcError::INVALID_PARAMS), "-32602"),
    (OperationError::Rpc(RpcError::INTERNAL_ERROR), "-32603"),
    (OperationError::Rpc(-32000), "-32000"),
    (OperationError::Rpc(-32002), "-32002"),
    (OperationError::Rpc(-32042), "-32042"),
    (OperationError::Rpc(0), "rpc_other"),
];

/// How many errors are counted separately.
pub(super) const FAILURE_CLASSES: usize = ERRORS.len();

/// The error at this place, as one word.
pub(super) fn failure_class(place: usize) -> &'static str {
    ERRORS[place].1
}

impl OperationError {
    /// How a call failed.
    pub fn of_call(error: &CallError) -> Self {
        match (&error.kind, error.outcome) {
            (CallErrorKind::TimedOut { .. }, _) => Self::Timeout,
            (CallErrorKind::Rpc(error), _) => Self::Rpc(error.code()),
            (_, Outcome::NotSent) => Self::NotSent,
            (_, Outcome::Refused) => Self::Refused,
            (_, Outcome::Unknown | Outcome::Answered) => Self::Unknown,
        }
    }

    /// Whether a result says that its tool failed. Only the result of `tools/call` can.
    pub fn in_result(method: &str, result: &RawJson) -> Option<Self> {
        let may_say = method == TOOLS_CALL && says_error(result.as_str());
        let flag = || Object::find(result, ["isError"]).and_then(|[flag]| flag);
        (may_say && flag().is_some_and(|flag| flag.as_str() == "true")).then_some(Self::Tool)
    }

    /// The error as one word, as in `error.type` of the metrics. Codes that are not counted separately are one word.
    pub fn as_str(self) -> &'static str {
        ERRORS[self.place()].1
    }

    /// The error as in `error.type` of a span: each JSON-RPC error is its code.
    pub fn error_type(self) -> Cow<'static, str> {
        match self {
            Self::Rpc(code) => code.to_string().into(),
            Self::Tool | Self::NotSent | Self::Refused | Self::Unknown | Self::Timeout | Self::Cancelled => {
                self.as_str().into()
            }
        }
    }

    /// The place of the error among [`FAILURE_CLASSES`].
    pub(super) fn place(self) -> usize {
        let known = ERRORS.iter().position(|(error, _)| *error == self);
        known.unwrap_or(ERRORS.len() - 1)
    }
}

/// Whether a result may have a true `isError`, found without a parse. The names of members are seldom written with escapes,
/// and never by an SDK.
fn says_error(result: &str) -> bool {
    if result.len() > SEARCHED_LIMIT {
        return false;
    }
    static IS_ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""isError""#));
    IS_ERROR.find_iter(result.as_bytes()).any(|at| {
        let value = result[at + r#""isError""#.len()..].trim_start().strip_prefix(':');
        value.is_some_and(|value| value.trim_start().starts_with("true"))
    })
}

/// Places for tools, shared by the servers of a fleet.
#[derive(Debug, Default)]
pub struct ToolPlaces(AtomicUsize);

/// How long the requests at one server took.
#[derive(Debug)]
pub struct OperationTable {
    methods: [Arc<OperationSeries>; METHODS.len()],
    tools: ArcSwap<HashMap<Box<str>, Arc<OperationSeries>>>,
    places: Arc<ToolPlaces>,
}

/// The durations of requests of one method, to one tool.
#[derive(Debug, Default)]
pub struct OperationSeries {
    succeeded: DurationHistogram,
    /// Made by the first failure.
    failed: OnceLock<Box<[OnceLock<Box<DurationHistogram>>; ERRORS.len()]>>,
}

/// Requests that were alike: of one method, to one tool, with one error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationCounts {
    /// The method; `other` for one without its own series.
    pub method: &'static str,
    /// The tool, for `tools/call`; `other` for tools without their own series.
    pub tool: Option<Box<str>>,
    /// The error as one word; `None` for requests that succeeded.
    pub error: Option<&'static str>,
    /// How long they took.
    pub durations: DurationCounts,
}

impl OperationTable {
    /// A table whose tools take their places from these.
    pub fn new(places: Arc<ToolPlaces>) -> Self {
        Self {
            methods: std::array::from_fn(|_| Arc::default()),
            tools: ArcSwap::default(),
            places,
        }
    }

    /// Where a request is counted. `tool` is the JSON text of the name in a `tools/call`. A tool gets a place of its own if
    /// `is_listed` says that the server has it: a caller can make up names.
    pub fn series(
        &self,
        method: &str,
        tool: Option<&str>,
        is_listed: impl FnOnce(&str) -> bool,
    ) -> Arc<OperationSeries> {
        let tool = tool.filter(|_| method == TOOLS_CALL).and_then(plain_text);
        let of_tool = tool.and_then(|tool| {
            let known = self.tools.load().get(tool).cloned();
            known.or_else(|| self.add(tool, is_listed))
        });
        of_tool.unwrap_or_else(|| {
            let known = METHODS.iter().position(|known| *known == method);
            self.methods[known.unwrap_or(METHODS.len() - 1)].clone()
        })
    }

    /// A place for a tool; `None` if it gets none.
    fn add(&self, tool: &str, is_listed: impl FnOnce(&str) -> bool) -> Option<Arc<OperationSeries>> {
        if !is_listed(tool) {
            return None;
        }
        let mut took_place = false;
        let tools = self.tools.rcu(|tools| {
            let is_full = tools.len() >= TOOLS_LIMIT_PER_SERVER;
            if tools.contains_key(tool) || is_full || !(took_place || self.places.take()) {
                return tools.clone();
            }
            took_place = true;
            let mut tools = HashMap::clone(tools);
            tools.insert(tool.into(), Arc::default());
            Arc::new(tools)
        });
        // Other threads changed the table between two tries of this one.
        if took_place && (tools.contains_key(tool) || tools.len() >= TOOLS_LIMIT_PER_SERVER) {
            self.places.give_back(1);
        }
        self.tools.load().get(tool).cloned()
    }

    /// What was counted until now.
    pub fn read(&self) -> Vec<OperationCounts> {
        let mut counts = Vec::new();
        for (method, series) in METHODS.into_iter().zip(&self.methods) {
            let tool = || (method == TOOLS_CALL).then(|| OTHER.into());
            series.read(method, tool, &mut counts);
        }
        let tools = self.tools.load();
        let mut tools: Vec<_> = tools.iter().collect();
        tools.sort_unstable_by_key(|(name, _)| *name);
        for (name, series) in tools {
            series.read(TOOLS_CALL, || Some(name.clone()), &mut counts);
        }
        counts
    }
}

impl Drop for OperationTable {
    fn drop(&mut self) {
        self.places.give_back(self.tools.load().len());
    }
}

impl ToolPlaces {
    fn take(&self) -> bool {
        let take = |taken: usize| (taken < TOOLS_LIMIT).then_some(taken + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    fn give_back(&self, places: usize) {
        self.0.fetch_sub(places, Ordering::Relaxed);
    }
}

impl OperationSeries {
    /// Counts a request.
    pub fn record(&self, took: Duration, error: Option<OperationError>) {
        match error {
            None => self.succeeded.record(took),
            Some(error) => {
                let failed = self
                    .failed
                    .get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
                failed[error.place()].get_or_init(Box::default).record(took);
            }
        }
    }

    fn read(
        &self,
        method: &'static str,
        tool: impl Fn() -> Option<Box<str>>,
        counts: &mut Vec<OperationCounts>,
    ) {
        let mut add = |error, histogram: &DurationHistogram| {
            let durations = histogram.read();
            if durations.count() > 0 {
                counts.push(OperationCounts {
                    method,
                    tool: tool(),
                    error,
                    durations,
                });
            }
        };
        add(None, &self.succeeded);
        let failed = self.failed.get().into_iter().flat_map(|failed| failed.iter());
        for ((_, word), histogram) in ERRORS.into_iter().zip(failed) {
            if let Some(histogram) = histogram.get() {
                add(Some(word), histogram);
            }
        }
    }
}

/// The text of a JSON string that is written without escapes. Names of tools have none.
fn plain_text(json: &str) -> Option<&str> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    (!text.contains('\\')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> OperationTable {
        OperationTable::new(Arc::default())
    }

    fn call(table: &OperationTable, tool: &str, error: Option<OperationError>) {
        let name = RawJson::from_value(tool).expect("a name");
        let is_listed = |tool: &str| !tool.starts_with("made-up");
        let series = table.series("tools/call", Some(name.as_str()), is_listed);
        series.record(Duration::from_millis(3), error);
    }

    fn counted(table: &OperationTable) -> Vec<(String, Option<&'static str>, u64)> {
        let counts = table.read().into_iter();
        let line = |count: OperationCounts| {
            let tool = count.tool.map_or_else(String::new, |tool| format!(" {tool}"));
            (
                format!("{}{tool}", count.method),
                count.error,
                count.durations.count(),
            )
        };
        counts.map(line).collect()
    }

    #[test]
    fn requests_are_told_apart_by_method_tool_and_error() {
        let table = table();
        call(&table, "echo", None);
        call(&table, "echo", None);
        call(&table, "echo", Some(OperationError::Timeout));
        call(&table, "add", Some(OperationError::Rpc(-32602)));
        call(&table, "add", Some(OperationError::Rpc(4711)));
        let took = Duration::from_millis(1);
        for method in ["tools/list", "x/own"] {
            table.series(method, None, |_| true).record(took, None);
        }
        let one = |name: &str, error, count| (name.to_owned(), error, count);
        assert_eq!(
            counted(&table),
            [
                one("tools/list", None, 1),
                one("other", None, 1),
                one("tools/call add", Some("-32602"), 1),
                one("tools/call add", Some("rpc_other"), 1),
                one("tools/call echo", None, 2),
                one("tools/call echo", Some("timeout"), 1),
            ]
        );
    }

    #[test]
    fn names_that_no_server_lists_take_no_place() {
        let table = table();
        for number in 0..1_000 {
            call(&table, &format!("made-up-{number}"), None);
        }
        assert_eq!(counted(&table), [("tools/call other".to_owned(), None, 1_000)]);
    }

    #[test]
    fn the_tools_of_one_server_and_of_all_have_so_many_places_and_no_more() {
        let places = Arc::<ToolPlaces>::default();
        let tables: Vec<_> = (0..8).map(|_| OperationTable::new(places.clone())).collect();
        for table in &tables {
            for number in 0..TOOLS_LIMIT_PER_SERVER + 5 {
                call(table, &format!("tool-{number}"), None);
            }
        }
        let told_apart = |table: &OperationTable| table.tools.load().len();
        assert_eq!(told_apart(&tables[0]), TOOLS_LIMIT_PER_SERVER);
        assert_eq!(tables.iter().map(told_apart).sum::<usize>(), TOOLS_LIMIT);
        assert_eq!(counted(&tables[0])[0], ("tools/call other".to_owned(), None, 5));
        // A server that is removed gives its places back.
        let mut tables = tables;
        tables.remove(0);
        let next = OperationTable::new(places);
        call(&next, "echo", None);
        assert_eq!(told_apart(&next), 1);
    }

    #[test]
    fn threads_that_meet_a_tool_at_the_same_time_take_one_place() {
        let places = Arc::<ToolPlaces>::default();
        let table = OperationTable::new(places.clone());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|number| call(&table, &format!("tool-{number}"), None)));
            }
        });
        assert_eq!(places.0.load(Ordering::Relaxed), 50);
        let calls = table
            .read()
            .iter()
            .map(|count| count.durations.count())
            .sum::<u64>();
        assert_eq!(calls, 200);
    }

    #[test]
    fn the_flag_of_a_failed_tool_is_found_where_it_is_the_tools_own() {
        let says = |result: &str| {
            let result = RawJson::from_text(result).expect("JSON");
            OperationError::in_result("tools/call", &result).is_some()
        };
        assert!(says(r#"{"content":[],"isError":true}"#));
        assert!(says(r#"{ "isError" : true , "content":[]}"#));
        assert!(!says(r#"{"content":[],"isError":false}"#));
        assert!(!says(
            r#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#
        ));
        assert!(!says(r#"{"structuredContent":{"isError":true}}"#));
        let result = RawJson::from_text(r#"{"isError":true}"#).expect("JSON");
        assert_eq!(OperationError::in_result("prompts/get", &result), None);
    }
}
