//! Makes exported spans of `tracing` spans. Their ids are fields: Mainstay itself makes them, because it tells them to servers.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes as SpanAttributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::exporter::SpanQueue;
use super::span::{AttributeValue, SpanEvent, SpanRecord, clean};

/// The targets of what belongs to a trace of requests.
const TARGETS: [&str; 2] = ["mainstay::trace", "mainstay_gateway::trace"];

/// Whether something belongs to a trace.
pub(super) fn is_traced(metadata: &Metadata<'_>) -> bool {
    TARGETS.contains(&metadata.target())
}

/// Exports spans when they end.
pub(super) struct OtlpLayer(pub(super) SpanQueue);

impl<S> Layer<S> for OtlpLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &SpanAttributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut record = SpanRecord {
            name: attributes.metadata().name().to_owned(),
            began_ns: now_ns(),
            ..SpanRecord::default()
        };
        attributes.record(&mut SpanFields(&mut record));
        span.extensions_mut().insert(record);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(record) = span.extensions_mut().get_mut::<SpanRecord>()
        {
            values.record(&mut SpanFields(record));
        }
    }

    /// An event belongs to the innermost span of a trace that it happened in.
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut scope = context.event_scope(event).into_iter().flatten();
        let traced = scope.find(|span| {
            let extensions = span.extensions();
            extensions.get::<SpanRecord>().is_some_and(SpanRecord::is_traced)
        });
        let Some(span) = traced else { return };
        let mut written = SpanEvent {
            at_ns: now_ns(),
            ..SpanEvent::default()
        };
        event.record(&mut EventFields(&mut written));
        if let Some(record) = span.extensions_mut().get_mut::<SpanRecord>() {
            record.add(written);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id);
        let record = span.and_then(|span| span.extensions_mut().remove::<SpanRecord>());
        if let Some(mut record) = record.filter(SpanRecord::is_traced) {
            record.ended_ns = now_ns();
            self.0.push(record);
        }
    }
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

struct SpanFields<'a>(&'a mut SpanRecord);

struct EventFields<'a>(&'a mut SpanEvent);

/// What a field's value goes to.
trait TakesField {
    fn take(&mut self, field: &Field, value: AttributeValue);
}

impl TakesField for SpanFields<'_> {
    fn take(&mut self, field: &Field, value: AttributeValue) {
        self.0.set(field.name(), value);
    }
}

impl TakesField for EventFields<'_> {
    fn take(&mut self, field: &Field, value: AttributeValue) {
        match (field.name(), value) {
            ("message", AttributeValue::Text(name)) => self.0.name = name,
            (name, value) => self.0.attributes.push((name.to_owned(), value)),
        }
    }
}

macro_rules! visit_as_attributes {
    ($fields:ident) => {
        impl Visit for $fields<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.take(field, AttributeValue::Text(clean(&format!("{value:?}"))));
            }

            fn record_str(&mut self, field: &Field, value: &str) {
                self.take(field, AttributeValue::Text(clean(value)));
            }

            fn record_i64(&mut self, field: &Field, value: i64) {
                self.take(field, AttributeValue::Number(value));
            }

            fn record_u64(&mut self, field: &Field, value: u64) {
                self.take(
                    field,
                    AttributeValue::Number(i64::try_from(value).unwrap_or(i64::MAX)),
                );
            }

            fn record_bool(&mut self, field: &Field, value: bool) {
                self.take(field, AttributeValue::Flag(value));
            }
        }
    };
}

visit_as_attributes!(SpanFields);
visit_as_attributes!(EventFields);
