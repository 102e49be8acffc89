//! What a server says to a message: it looks for the id and the method, and parses nothing.

use std::io::Write;

use mainstay::RawJson;
use memchr::memmem;
use serde_json::json;

use crate::server::{BenchEra, BenchServer};

/// What a server says, made ready beforehand.
pub(crate) struct Answers {
    remote: BenchServer,
    result: RawJson,
    /// How often its tools were listed.
    listings: u64,
}

impl Answers {
    pub(crate) fn new(remote: BenchServer) -> Self {
        let text = "x".repeat(remote.result);
        let result = json!({ "content": [{ "type": "text", "text": text }] });
        Self {
            remote,
            result: RawJson::from_value(&result).expect("a value can be written"),
            listings: 0,
        }
    }

    /// Answers one line, if it wants an answer.
    pub(crate) fn answer(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some(id) = number_after(line, b"\"id\":") else {
            return;
        };
        let asks = |method: &[u8]| memmem::find(line, method).is_some();
        if asks(b"\"tools/call\"") {
            let result = self.result.clone();
            respond(out, id, "result", &result);
        } else if asks(b"\"initialize\"") {
            respond(
                out,
                id,
                "result",
                &raw(&json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": "remote", "version": "1" },
                })),
            );
        } else if asks(b"\"tools/list\"") {
            let tools = self.tools();
            respond(out, id, "result", &tools);
            if self.remote.restless {
                out.extend_from_slice(
                    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n",
                );
            }
        } else if self.remote.era == BenchEra::Modern && asks(b"\"server/discover\"") {
            respond(
                out,
                id,
                "result",
                &raw(&json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": { "tools": { "listChanged": true } },
                })),
            );
        } else {
            respond(
                out,
                id,
                "error",
                &raw(&json!({ "code": -32601, "message": "no" })),
            );
        }
    }

    fn tools(&mut self) -> RawJson {
        self.listings += 1;
        let version = if self.remote.restless { self.listings } else { 0 };
        let tool = |n| {
            json!({
                "name": format!("tool-{n}"),
                "description": format!("Does the thing number {n}, as of listing {version}."),
                "inputSchema": { "type": "object", "properties": { "message": { "type": "string" } } },
                "annotations": { "readOnlyHint": true },
            })
        };
        raw(&json!({ "tools": (0..self.remote.tools).map(tool).collect::<Vec<_>>() }))
    }
}

fn raw(value: &serde_json::Value) -> RawJson {
    RawJson::from_value(value).expect("a value can be written")
}

fn respond(out: &mut Vec<u8>, id: u64, key: &str, payload: &RawJson) {
    write!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{key}\":").expect("memory takes any text");
    out.extend_from_slice(payload.as_bytes());
    out.extend_from_slice(b"}\n");
}

fn number_after(line: &[u8], key: &[u8]) -> Option<u64> {
    let at = memmem::find(line, key)? + key.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
