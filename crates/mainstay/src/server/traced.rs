//! The span of one attempt on a connection, and the trace context that the server gets with it.

use std::borrow::Cow;

use mainstay_lifecycle::Generation;
use tracing::Span;
use tracing::field::Empty;

use super::operations::OperationError;
use crate::TraceContext;
use crate::wire::{Params, RawJson, with_meta};

/// The target of spans and events that belong to a trace of requests. Documented: embedders filter by it.
pub(crate) const TRACE_TARGET: &str = "mainstay::trace";

/// One attempt, as traces see it.
pub(super) struct TracedAttempt {
    pub(super) span: Span,
    /// The trace context that the server gets.
    sent_context: Option<TraceContext>,
}

impl TracedAttempt {
    /// Begins a span below the caller's. If no subscriber wants the span, the server gets the caller's own.
    pub(super) fn begin(
        server: &str,
        method: &str,
        generation: Generation,
        params: &Params,
        caller: Option<&TraceContext>,
    ) -> Self {
        let span = tracing::debug_span!(
            target: TRACE_TARGET,
            "attempt",
            otel.kind = "client",
            otel.name = method,
            mcp.method.name = method,
            gen_ai.tool.name = Empty,
            mainstay.server = server,
            mainstay.generation = generation.0,
            error.type = Empty,
            trace_id = Empty,
            span_id = Empty,
            parent_span_id = Empty,
        );
        if !span.is_disabled()
            && method == "tools/call"
            && let Some(tool) = params.get("name").and_then(|name| name.parse::<String>().ok())
        {
            span.record("otel.name", format!("{method} {tool}"));
            span.record("gen_ai.tool.name", tool);
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
        Self { span, sent_context }
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

    pub(super) fn failed(&self, error: OperationError) {
        self.span.record("error.type", error.as_str());
    }
}
