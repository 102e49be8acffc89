//! The span of one attempt on a connection, and the trace context that the server gets with it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::Span;
use tracing::field::Empty;

use super::operations::OperationError;
use super::options::CallOptions;
use super::slot::Slot;
use super::status::TransportKind;
use crate::TraceContext;
use crate::config::Target;
use crate::connection::Connection;
use crate::wire::{Params, RawJson, with_meta};

/// The target of spans and events that belong to a trace of requests. Documented: embedders filter by it.
pub(crate) const TRACE_TARGET: &str = "mainstay::trace";

/// The id of no request: real ones count up from the first.
const NOT_SENT: u64 = u64::MAX;

/// One attempt, as traces see it. If this is dropped before it is told how the attempt ended, the caller gave it up.
pub(super) struct TracedAttempt {
    pub(super) span: Span,
    /// The trace context that the server gets.
    sent_context: Option<TraceContext>,
    /// The id of the request, once it has one. `None` if no subscriber wants the span.
    number: Option<Arc<AtomicU64>>,
    has_ended: bool,
}

impl TracedAttempt {
    /// Begins a span below the caller's. If no subscriber wants the span, the server gets the caller's own.
    ///
    /// The attributes are those of OpenTelemetry's conventions for MCP clients; the tests of the program compare them with a table.
    pub(super) fn begin(
        slot: &Slot,
        method: &str,
        connection: &Connection,
        params: &Params,
        caller: Option<&TraceContext>,
    ) -> Self {
        let span = tracing::debug_span!(
            target: TRACE_TARGET,
            "attempt",
            otel.kind = "client",
            otel.name = method,
            mcp.method.name = method,
            mcp.protocol.version = Empty,
            mcp.session.id = Empty,
            mcp.resource.uri = Empty,
            jsonrpc.request.id = Empty,
            gen_ai.operation.name = Empty,
            gen_ai.tool.name = Empty,
            gen_ai.prompt.name = Empty,
            network.transport = Empty,
            network.protocol.name = Empty,
            network.protocol.version = Empty,
            server.address = Empty,
            server.port = Empty,
            rpc.response.status_code = Empty,
            mainstay.server = &*slot.name,
            mainstay.generation = connection.generation.0,
            error.type = Empty,
            trace_id = Empty,
            span_id = Empty,
            parent_span_id = Empty,
        );
        let is_recorded = !span.is_disabled();
        if is_recorded {
            describe(&span, slot, method, connection, params);
        }
        let sent_context = match caller {
            Some(caller) if !span.is_disabled() && caller.is_sampled() => {
                let own = caller.child();
                span.record("trace_id", own.trace_id());
                span.record("span_id", own.span_id());
                span.record("parent_span_id", caller.span_id());
                Some(own)
            }
            caller => caller.cloned(),
        };
        Self {
            span,
            sent_context,
            number: is_recorded.then(|| Arc::new(AtomicU64::new(NOT_SENT))),
            has_ended: false,
        }
    }

    /// The parameters with the trace context for the server.
    pub(super) fn params<'p>(&self, params: &'p Params) -> Cow<'p, Params> {
        let Some(sent_context) = &self.sent_context else {
            return Cow::Borrowed(params);
        };
        let text = |text: &str| RawJson::from_value(text).unwrap_or(RawJson::NULL);
        let mut entries = vec![("traceparent", text(&sent_context.to_string()))];
        entries.extend(sent_context.state().map(|state| ("tracestate", text(state))));
        match with_meta(params.to_raw().as_ref(), &entries) {
            Ok(traced) => Cow::Owned(Params::new(Some(traced))),
            // The trace is lost, and the call is not.
            Err(_too_many_members) => Cow::Borrowed(params),
        }
    }

    /// The options of the request, which notes its id for the span.
    pub(super) fn options(&self, options: &CallOptions) -> CallOptions {
        CallOptions {
            number: self.number.clone(),
            ..options.clone()
        }
    }

    /// Notes how the attempt ended; `None` if it succeeded.
    pub(super) fn ended(&mut self, error: Option<OperationError>) {
        self.has_ended = true;
        if let Some(error) = error {
            self.span.record("error.type", &*error.error_type());
            if let OperationError::Rpc(code) = error {
                self.span.record("rpc.response.status_code", code.to_string());
            }
        }
    }
}

impl Drop for TracedAttempt {
    fn drop(&mut self) {
        let number = self.number.as_ref().map(|number| number.load(Ordering::Acquire));
        if let Some(number) = number.filter(|number| *number != NOT_SENT) {
            self.span.record("jsonrpc.request.id", number.to_string());
        }
        if !self.has_ended {
            self.ended(Some(OperationError::Cancelled));
        }
    }
}

/// What is known of the attempt before it is made.
fn describe(span: &Span, slot: &Slot, method: &str, connection: &Connection, params: &Params) {
    let member = |name: &str| params.get(name).and_then(|value| value.parse::<String>().ok());
    let of_name = match method {
        "tools/call" => {
            span.record("gen_ai.operation.name", "execute_tool");
            Some("gen_ai.tool.name")
        }
        "prompts/get" => Some("gen_ai.prompt.name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            if let Some(uri) = member("uri") {
                span.record("mcp.resource.uri", uri);
            }
            None
        }
        _other => None,
    };
    if let (Some(field), Some(name)) = (of_name, of_name.and_then(|_| member("name"))) {
        span.record("otel.name", format!("{method} {name}"));
        span.record(field, name);
    }
    span.record("mcp.protocol.version", &*connection.greeting.version);
    if let Some(session) = connection.peer.session() {
        span.record("mcp.session.id", session);
    }
    let settings = slot.settings.load();
    let target = settings.target();
    let transport = match TransportKind::of(target, connection.dialect) {
        TransportKind::Stdio => Some("pipe"),
        TransportKind::Http | TransportKind::Sse => {
            span.record("network.protocol.name", "http");
            // The client speaks no other.
            span.record("network.protocol.version", "1.1");
            let is_socket = matches!(target, Target::Http(target) if target.unix_socket().is_some());
            if let (Target::Http(target), false, Some(endpoint)) =
                (target, is_socket, settings.used_endpoint())
            {
                let (host, port) = endpoint.address();
                if target.shows_host() {
                    span.record("server.address", host);
                    span.record("server.port", port);
                }
            }
            Some(if is_socket { "unix" } else { "tcp" })
        }
        TransportKind::Custom => None,
    };
    if let Some(transport) = transport {
        span.record("network.transport", transport);
    }
}
