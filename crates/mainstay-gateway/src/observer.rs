//! What is measured and logged of a gateway's requests.
//!
//! The router opens an [`ObservedRequest`] for each request, whichever door it came through, and ends it with the answer. The log
//! has one line for each request that failed, with no argument and no result. Durations are counted if the fleet is measured.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::StatusCode;
use mainstay::catalog::Kind;
use mainstay::gateway::message::{Params, RawJson, RpcError};
use mainstay::gateway::{DurationHistogram, OperationSeries, OperationTable, PlainText, ToolPlaces};
use mainstay::server::{DurationCounts, OperationCounts, OperationError};
use mainstay::{CallError, CallErrorKind, CallOptions, Era, Fleet, Server, TraceContext};
use tracing::Span;
use tracing::field::Empty;

use crate::client::{Client, RunningRequest};
use crate::gateway::Gateway;
use crate::protocol::is_client_error;
use crate::router::RoutedRequest;
use crate::sessions::{DoorKind, shown};

/// The log target of failed requests.
const FAILED_TARGET: &str = "mainstay_gateway::failed";

/// The log target of what is asked and answered.
const PAYLOAD_TARGET: &str = "mainstay_gateway::payload";

/// Bytes of parameters and results that are logged.
const PAYLOAD_LIMIT: usize = 2_000;

/// The target of spans that belong to a trace of requests.
const TRACE_TARGET: &str = "mainstay_gateway::trace";

/// The statuses of refused HTTP requests that are counted separately. All others count as the last one.
const STATUSES: [&str; 12] = [
    "400", "401", "403", "404", "405", "406", "408", "413", "415", "429", "503", "other",
];

/// What a gateway has counted since its start.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GatewayCounts {
    /// How long the requests of clients took that went to each server, waiting included. Empty unless the fleet is
    /// [measured](mainstay::FleetBuilder::measured).
    pub of_servers: Vec<(Arc<str>, Vec<OperationCounts>)>,
    /// The same for requests that went to no server, such as lists.
    pub own: Vec<OperationCounts>,
    /// How long the sessions lasted that have ended.
    pub sessions: DurationCounts,
    /// HTTP requests that were refused, by status.
    pub refused: Vec<(&'static str, u64)>,
    /// Notifications that were dropped because their clients do not read them.
    pub unread_notifications: u64,
    /// Notifications of servers outside of calls that were for no client.
    pub undelivered_notifications: u64,
}

impl Gateway {
    /// What it has counted since its start.
    pub fn counts(&self) -> GatewayCounts {
        GatewayCounts {
            undelivered_notifications: self.0.subscribers.dropped(),
            ..self.0.observer.read()
        }
    }
}

/// Counts and logs the requests of one gateway.
#[derive(Debug, Default)]
pub(crate) struct RequestObserver {
    /// `None` if the fleet is not measured.
    operations: Option<Operations>,
    logs_payloads: bool,
    sessions: DurationHistogram,
    refused: [AtomicU64; STATUSES.len()],
    /// Shared with the clients.
    pub(crate) unread: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Operations {
    places: Arc<ToolPlaces>,
    own: OperationTable,
    of_servers: ArcSwap<HashMap<Arc<str>, Arc<OperationTable>>>,
}

/// What is noted of a request on its way.
#[derive(Debug, Default)]
pub(crate) struct RequestMarks {
    series: OnceLock<Arc<OperationSeries>>,
    failure: OnceLock<NotedFailure>,
    trace: OnceLock<RequestTrace>,
}

/// How the call of a request failed.
#[derive(Debug)]
struct NotedFailure {
    error: OperationError,
    /// Why, unless the server said it: its answer may quote arguments.
    reason: Option<String>,
}

/// Where a request stands in a trace.
#[derive(Debug)]
struct RequestTrace {
    context: TraceContext,
    /// Whether the server needs it separately, because the parameters do not carry it.
    is_handed_on: bool,
}

impl RequestMarks {
    /// Notes that the call of the request failed, though the client may get a result that says so.
    pub(crate) fn failed(&self, error: &CallError) {
        let is_answer = matches!(error.kind, CallErrorKind::Rpc(_));
        // A request fails once.
        let _ = self.failure.set(NotedFailure {
            error: OperationError::of_call(error),
            reason: (!is_answer).then(|| shown(&error.to_string())),
        });
    }

    /// The options of the request's call, with the span that the call belongs to.
    pub(crate) fn hand_on(&self, options: CallOptions) -> CallOptions {
        match self.trace.get() {
            Some(trace) if trace.is_handed_on => options.trace(trace.context.clone()),
            Some(_) | None => options,
        }
    }
}

impl RequestObserver {
    pub(crate) fn new(is_measured: bool, logs_payloads: bool) -> Self {
        let operations = || {
            let places = Arc::<ToolPlaces>::default();
            Operations {
                own: OperationTable::new(places.clone()),
                places,
                of_servers: ArcSwap::default(),
            }
        };
        Self {
            operations: is_measured.then(operations),
            logs_payloads,
            ..Self::default()
        }
    }

    /// Notes which server a request goes to, and with what parameters.
    pub(crate) fn routed(
        &self,
        request: &RunningRequest,
        method: &str,
        server: &Server,
        params: &Params,
        fleet: &Fleet,
    ) {
        let Some(operations) = &self.operations else {
            return;
        };
        let is_listed = |tool: &str| {
            server
                .catalog()
                .is_some_and(|catalog| catalog.item(Kind::Tool, tool).is_some())
        };
        let series =
            operations
                .of_server(server.name(), fleet)
                .series(method, params.shown_text("name"), is_listed);
        // A request goes to one server.
        let _ = request.marks().series.set(series);
    }

    /// Counts an HTTP request that was refused before it reached the router.
    pub(crate) fn refused(&self, status: StatusCode) {
        let known = STATUSES.iter().position(|known| *known == status.as_str());
        self.refused[known.unwrap_or(STATUSES.len() - 1)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn session_ended(&self, lasted: Duration) {
        self.sessions.record(lasted);
    }

    fn read(&self) -> GatewayCounts {
        let refused = STATUSES.into_iter().zip(&self.refused);
        let refused = refused.map(|(status, count)| (status, count.load(Ordering::Relaxed)));
        let operations = self.operations.as_ref();
        let of_servers = operations.map(|operations| operations.of_servers.load_full());
        let of_servers = of_servers.iter().flat_map(|tables| tables.iter());
        GatewayCounts {
            of_servers: of_servers
                .map(|(server, table)| (server.clone(), table.read()))
                .collect(),
            own: operations.map_or_else(Vec::new, |operations| operations.own.read()),
            sessions: self.sessions.read(),
            refused: refused.filter(|(_, count)| *count > 0).collect(),
            unread_notifications: self.unread.load(Ordering::Relaxed),
            undelivered_notifications: 0,
        }
    }
}

impl Operations {
    /// The table of a server. The first request to a server adds one, and drops those of servers that are gone.
    fn of_server(&self, server: &str, fleet: &Fleet) -> Arc<OperationTable> {
        if let Some(table) = self.of_servers.load().get(server) {
            return table.clone();
        }
        let new = Arc::new(OperationTable::new(self.places.clone()));
        self.of_servers.rcu(|tables| {
            let kept = tables.iter().filter(|(name, _)| fleet.server(name).is_some());
            let mut tables: HashMap<_, _> = kept.map(|(name, table)| (name.clone(), table.clone())).collect();
            tables.entry(server.into()).or_insert_with(|| new.clone());
            tables
        });
        self.of_servers.load().get(server).cloned().unwrap_or(new)
    }
}

/// A request that is being answered. It counts as cancelled if this is dropped before [`end`](Self::end).
pub(crate) struct ObservedRequest<'a> {
    observer: &'a RequestObserver,
    client: &'a Client,
    run: &'a RunningRequest,
    method: &'a str,
    span: Span,
    /// The parameters, if they are logged.
    params: Option<RawJson>,
    is_ended: bool,
}

impl<'a> ObservedRequest<'a> {
    pub(crate) fn begin(observer: &'a RequestObserver, request: &RoutedRequest<'a>) -> Self {
        let span = request_span(request);
        if !span.is_disabled() {
            describe_request(&span, request);
        }
        if let Some(trace) = request_trace(&span, request) {
            // A request begins once.
            let _ = request.run.marks().trace.set(trace);
        }
        Self {
            observer,
            client: request.client,
            run: request.run,
            method: request.method,
            span,
            params: request
                .params
                .as_raw()
                .filter(|_| observer.logs_payloads)
                .cloned(),
            is_ended: false,
        }
    }

    /// The span that all of its work belongs to.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Counts the request, and logs it if it failed. `None` if the client has cancelled it.
    pub(crate) fn end(mut self, answer: Option<Result<&RawJson, &RpcError>>) {
        self.is_ended = true;
        let failed = self.run.marks().failure.get().map(|failure| failure.error);
        if self.observer.logs_payloads {
            self.log_payloads(answer);
        }
        match answer {
            None => self.count(Some(OperationError::Cancelled)),
            Some(Ok(result)) => {
                let flagged = || OperationError::in_result(self.method, result);
                match failed {
                    Some(failed) => {
                        self.count(Some(failed));
                        self.log(failed, None);
                    }
                    None if self.is_watched() => self.count(flagged()),
                    None => {}
                }
            }
            Some(Err(error)) => {
                let failed = failed.unwrap_or(OperationError::Rpc(error.code()));
                self.count(Some(failed));
                self.log(failed, Some(error));
            }
        }
    }

    fn count(&self, error: Option<OperationError>) {
        if !self.span.is_disabled() {
            self.describe(error);
        }
        let Some(operations) = &self.observer.operations else {
            return;
        };
        let took = self.run.elapsed();
        match self.run.marks().series.get() {
            Some(series) => series.record(took, error),
            None => operations
                .own
                .series(self.method, None, |_| false)
                .record(took, error),
        }
    }

    /// Whether its result is counted or traced.
    fn is_watched(&self) -> bool {
        self.observer.operations.is_some() || !self.span.is_disabled()
    }

    /// Completes the span.
    fn describe(&self, error: Option<OperationError>) {
        let route = self.run.info();
        if let Some(server) = route.server.as_deref() {
            self.span.record("mainstay.server", server);
        }
        if let Some(name) = &route.name {
            let field = match self.method {
                "tools/call" => "gen_ai.tool.name",
                "prompts/get" => "gen_ai.prompt.name",
                _other => "mcp.resource.uri",
            };
            self.span.record(field, name.as_str());
            // There may be any number of addresses: they are in no name.
            if field != "mcp.resource.uri" {
                self.span
                    .record("otel.name", format!("{} {name}", shown(self.method)));
            }
        }
        if let Some(error) = error {
            self.span.record("error.type", &*error.error_type());
            if let OperationError::Rpc(code) = error {
                self.span.record("rpc.response.status_code", code.to_string());
            }
        }
    }

    /// Whether the HTTP door refuses the request with a status, and logs that.
    fn is_refused_by_status(&self, error: &RpcError) -> bool {
        let has_session = self.client.own().is_some();
        self.client.era == Era::Modern && !has_session && is_client_error(error.code())
    }

    /// Logs what was asked and what was answered. The writer of the log cuts both.
    fn log_payloads(&self, answer: Option<Result<&RawJson, &RpcError>>) {
        let route = self.run.info();
        let cut = |json: &RawJson| PlainText::line(first_bytes(json.as_str(), PAYLOAD_LIMIT)).into_string();
        tracing::info!(
            target: PAYLOAD_TARGET,
            server = route.server.as_deref(),
            session = self.client.number(),
            method = %shown(self.method),
            params = self.params.as_ref().map(cut),
            result = answer.and_then(Result::ok).map(cut),
            error = answer.and_then(Result::err).map(|error| shown(error.message())),
            "payload"
        );
    }

    fn log(&self, failed: OperationError, error: Option<&RpcError>) {
        if error.is_some_and(|error| self.is_refused_by_status(error)) {
            return;
        }
        let route = self.run.info();
        let reason = match self.run.marks().failure.get() {
            Some(failure) => failure.reason.clone(),
            None => error.map(|error| shown(error.message())),
        };
        tracing::info!(
            target: FAILED_TARGET,
            server = route.server.as_deref(),
            session = self.client.number(),
            method = %shown(self.method),
            name = route.name,
            outcome = failed.as_str(),
            code = error.map(RpcError::code),
            reason,
            trace_id = self.run.marks().trace.get().map(|trace| trace.context.trace_id()),
            duration_ms = u64::try_from(self.run.elapsed().as_millis()).unwrap_or(u64::MAX),
            "request failed"
        );
    }
}

/// The first bytes of a text, at a border of its characters.
fn first_bytes(text: &str, limit: usize) -> &str {
    match text.get(..limit) {
        Some(first) => first,
        None if text.len() <= limit => text,
        None => {
            let border = (0..limit).rev().find(|at| text.is_char_boundary(*at));
            &text[..border.unwrap_or_default()]
        }
    }
}

fn request_span(request: &RoutedRequest<'_>) -> Span {
    tracing::debug_span!(
        target: TRACE_TARGET,
        "request",
        otel.kind = "server",
        otel.name = request.method,
        mcp.method.name = request.method,
        mcp.protocol.version = Empty,
        mcp.session.id = Empty,
        mcp.resource.uri = Empty,
        jsonrpc.request.id = Empty,
        gen_ai.operation.name = Empty,
        gen_ai.tool.name = Empty,
        gen_ai.prompt.name = Empty,
        network.transport = Empty,
        network.protocol.name = Empty,
        rpc.response.status_code = Empty,
        mainstay.session = request.client.number(),
        mainstay.server = Empty,
        error.type = Empty,
        trace_id = Empty,
        span_id = Empty,
        parent_span_id = Empty,
        trace_state = Empty,
    )
}

/// What is known of a request before it is answered, in the attributes of OpenTelemetry's conventions for MCP servers;
/// the tests of the program compare them with a table.
fn describe_request(span: &Span, request: &RoutedRequest<'_>) {
    let client = request.client;
    let id = request.run.id();
    // An id is a number or a string, and the attribute is the text of either.
    let id = id.parse::<String>().unwrap_or_else(|_| id.as_str().to_owned());
    span.record("jsonrpc.request.id", id);
    if request.method == "tools/call" {
        span.record("gen_ai.operation.name", "execute_tool");
    }
    match (&request.meta.version, client.version()) {
        (Some(version), _) => {
            span.record("mcp.protocol.version", version.as_str());
        }
        (None, Some(version)) => {
            span.record("mcp.protocol.version", version);
        }
        (None, None) => {}
    }
    if let Some(session) = client.http_session_id() {
        span.record("mcp.session.id", session);
    }
    let transport = match client.door() {
        DoorKind::Stdio => "pipe",
        DoorKind::Http | DoorKind::Sse => {
            span.record("network.protocol.name", "http");
            "tcp"
        }
    };
    span.record("network.transport", transport);
}

/// The request's own span, if it is recorded; otherwise that of its client.
fn request_trace(span: &Span, request: &RoutedRequest<'_>) -> Option<RequestTrace> {
    let client = request.meta.trace.as_ref();
    if span.is_disabled() || client.is_some_and(|client| !client.is_sampled()) {
        return client.map(|client| RequestTrace {
            context: client.clone(),
            is_handed_on: request.meta.is_trace_in_header,
        });
    }
    let context = client.map_or_else(TraceContext::root, TraceContext::child);
    span.record("trace_id", context.trace_id());
    span.record("span_id", context.span_id());
    if let Some(client) = client {
        span.record("parent_span_id", client.span_id());
    }
    if let Some(state) = context.state() {
        span.record("trace_state", state);
    }
    Some(RequestTrace {
        context,
        is_handed_on: true,
    })
}

impl Drop for ObservedRequest<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.count(Some(OperationError::Cancelled));
        }
    }
}
