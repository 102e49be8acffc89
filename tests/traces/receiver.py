"""A receiver of traces over OTLP/HTTP that decodes them with OpenTelemetry's own definitions.

    receiver.py [hang]

The first line on stdout is its address. Each span that it gets is one more line, as JSON. With `hang` it takes requests and never answers.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

hangs = sys.argv[1:] == ["hang"]
lock = threading.Lock()


def values(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def say(line):
    with lock:
        print(json.dumps(line), flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if hangs:
            say({"hanging": self.path})
            threading.Event().wait()
        request = ExportTraceServiceRequest.FromString(body)
        assert self.path == "/v1/traces", self.path
        assert self.headers["content-type"] == "application/x-protobuf"
        for resource in request.resource_spans:
            described = values(resource.resource.attributes)
            service = described["service.name"]
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                say({
                    "service": service,
                    "resource": described,
                    "name": span.name,
                    "kind": span.kind,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "state": span.trace_state,
                    "failed": span.status.code == 2,
                    "nanos": span.end_time_unix_nano - span.start_time_unix_nano,
                    "attributes": values(span.attributes),
                    "events": [{"name": event.name} | values(event.attributes) for event in span.events],
                    "authorization": self.headers.get("x-test-key"),
                })
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
