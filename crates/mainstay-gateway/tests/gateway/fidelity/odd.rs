//! Payloads that no gateway could forward unchanged if it parsed them: each part of [`ODD`] is changed by a round trip through values.

use std::sync::LazyLock;

/// Numbers that no float holds, spellings that no writer chooses, names and text of every sort, keys in no order and twice.
pub(crate) const ODD: &str = concat!(
    r#"{"z":1.0,"a":1e2,"E":1.5E+10,"big":123456789012345678901234567890,"beyond":9007199254740993,"minus":-0,"#,
    r#""minus.0":-0.0,"huge":1e400,"tiny":1e-400,"digits":0.1000000000000000055511151231257827,"#,
    r#""escaped":"\u00e9\/\u0000\u2028\t\ud83d\ude00","lone":"\ud800","plain":"é/ 😀e"#,
    "\u{301}\u{2028}\u{feff}",
    r#"","nested":{"b":[ ],"a":{ } ,"#,
    "\t",
    r#""c":null},"twice":1,"twice":2,"":[true ,false],"ключ":"值","\u006bey":{}}"#
);

/// What a tool answers: unknown fields in the result, the content block, its annotations and `_meta`.
pub(crate) static RESULT: LazyLock<String> = LazyLock::new(|| {
    format!(
        r#"{{"x-result":{ODD},"x-result":2 ,"content":[{{"x-block":{ODD},"type":"text","text":"\u0041\/","annotations":{{"priority":0.50,"x-note":{ODD}}},"_meta":{{"example.org/block":{ODD}}}}},{{"type":"x-unknown","data":{ODD}}}],"structuredContent":{ODD},"isError":false,"_meta":{{"example.org/trace":{ODD}}}}}"#
    )
});

/// An error with a code, a text and data of its own, and a field that no version knows.
pub(crate) static ERROR: LazyLock<String> = LazyLock::new(|| {
    format!(r#"{{"x-error":{ODD},"code":-31999,"message":"n\u006f \/","data":{{"x-data":{ODD}}}}}"#)
});

/// What a server asks its client.
pub(crate) static QUESTION: LazyLock<String> = LazyLock::new(|| {
    format!(
        r#"{{"x-asks":{ODD},"message":"Wh\u006f?","requestedSchema":{{"type":"object","properties":{{}},"x-schema":{ODD}}},"_meta":{{"example.org/ask":{ODD}}}}}"#
    )
});

/// What the client answers.
pub(crate) static ANSWER: LazyLock<String> = LazyLock::new(|| {
    format!(
        r#"{{"x-answer":{ODD},"action":"accept","content":{ODD},"_meta":{{"example.org/answer":{ODD}}}}}"#
    )
});

pub(crate) static TOOL: LazyLock<String> = LazyLock::new(|| {
    format!(
        r#"{{"x-tool":{ODD},"name":"plain","title":"\u0041\/","description":"d","inputSchema":{{"type":"object","x-schema":{ODD}}},"annotations":{{"x-hint":{ODD},"readOnlyHint":false}},"_meta":{{"example.org/item":{ODD}}}}}"#
    )
});

pub(crate) static PROMPT: LazyLock<String> = LazyLock::new(|| {
    format!(r#"{{"x-prompt":{ODD},"name":"p","arguments":[{{"name":"who","x-argument":{ODD}}}]}}"#)
});

pub(crate) static RESOURCE: LazyLock<String> =
    LazyLock::new(|| format!(r#"{{"x-resource":{ODD},"uri":"mem://one","name":"one","size":1.0}}"#));

pub(crate) static TEMPLATE: LazyLock<String> =
    LazyLock::new(|| format!(r#"{{"x-template":{ODD},"uriTemplate":"mem://{{any}}","name":"any"}}"#));

/// What the server says of itself.
pub(crate) static INFO: LazyLock<String> =
    LazyLock::new(|| format!(r#"{{"x-info":{ODD},"name":"odd","version":"1.0"}}"#));

pub(crate) static CAPABILITIES: LazyLock<String> = LazyLock::new(|| {
    format!(
        r#"{{"x-can":{ODD},"tools":{{"x-tools":{ODD},"listChanged":true}},"prompts":{{"listChanged":true}},"resources":{{"subscribe":true,"listChanged":true}},"logging":{{}},"completions":{{}},"experimental":{{"x":{ODD}}}}}"#
    )
});

/// The parameters of a progress notification, of a log message and of an update, but for their first members.
pub(crate) static REST: LazyLock<String> =
    LazyLock::new(|| format!(r#""x-note":{ODD},"_meta":{{"example.org/note":{ODD}}}"#));
