//! Writes spans as the protobuf message that OTLP/HTTP carries (`opentelemetry.proto.collector.trace.v1`). The numbers of the fields are
//! those of the published definition.

use super::span::{AttributeValue, Attributes, SpanEvent, SpanKind, SpanRecord};

/// `ExportTraceServiceRequest` with these spans of one service.
pub(super) fn export_request(resource: &Attributes, version: &str, spans: &[SpanRecord]) -> Vec<u8> {
    let mut request = ProtobufMessage::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |written| written.attributes(1, resource));
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.text(1, "mainstay");
                scope.text(2, version);
            });
            for span in spans {
                scope_spans.message(2, |written| write_span(written, span));
            }
        });
    });
    request.0
}

fn write_span(message: &mut ProtobufMessage, span: &SpanRecord) {
    message.bytes(1, &span.trace_id);
    message.bytes(2, &span.span_id);
    if let Some(state) = &span.trace_state {
        message.text(3, state);
    }
    if let Some(parent) = &span.parent_span_id {
        message.bytes(4, parent);
    }
    message.text(5, &span.name);
    message.number(
        6,
        match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
    );
    message.fixed(7, span.began_ns);
    message.fixed(8, span.ended_ns);
    message.attributes(9, &span.attributes);
    for event in &span.events {
        message.message(11, |written| write_event(written, event));
    }
    message.number(12, span.dropped_events);
    if span.has_failed {
        const ERROR: u64 = 2;
        message.message(15, |status| status.number(3, ERROR));
    }
}

fn write_event(message: &mut ProtobufMessage, event: &SpanEvent) {
    message.fixed(1, event.at_ns);
    message.text(2, &event.name);
    message.attributes(3, &event.attributes);
}

/// A protobuf message that is being written.
#[derive(Default)]
struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire_type: u8) {
        self.varint(u64::from(field << 3) | u64::from(wire_type));
    }

    /// A number; zero is not written, as it is what an absent field means.
    fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, 0);
            self.varint(value);
        }
    }

    fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attributes(&mut self, field: u32, attributes: &Attributes) {
        for (key, value) in attributes {
            self.message(field, |pair| {
                pair.text(1, key);
                pair.message(2, |written| match value {
                    AttributeValue::Text(text) => written.text(1, text),
                    AttributeValue::Flag(flag) => {
                        written.tag(2, 0);
                        written.varint(u64::from(*flag));
                    }
                    AttributeValue::Number(number) => {
                        written.tag(3, 0);
                        written.varint(number.cast_unsigned());
                    }
                });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_encoding_wants_them() {
        let mut message = ProtobufMessage::default();
        message.number(1, 150);
        message.number(2, 0);
        message.text(2, "testing");
        message.fixed(3, 1);
        // The examples of the encoding's own documentation.
        let expected = [
            &[0x08, 0x96, 0x01][..],
            &[0x12, 0x07],
            b"testing",
            &[0x19, 1, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(message.0, expected.concat());
    }
}
