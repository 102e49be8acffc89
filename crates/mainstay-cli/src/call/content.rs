//! What a tool answered, for a person. Nothing is left out: what cannot be shown is named.

use serde::Deserialize;
use serde_json::Value;

use mainstay::{Outcome, RawJson};

/// A tool's result, as far as it is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ShownAnswer {
    content: Vec<Value>,
    structured_content: Option<Value>,
    pub(super) is_error: bool,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
}

impl ShownAnswer {
    /// Reads a result. One of an unknown shape is shown whole.
    pub(super) fn read(result: &RawJson) -> Self {
        result.parse().unwrap_or_else(|_| Self {
            structured_content: result.parse().ok(),
            ..Self::default()
        })
    }

    /// What became of a call that failed at the daemon or at another gateway of Mainstay, before its server could answer.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        let outcome = self.meta.as_ref()?.pointer("/mainstay/outcome")?.as_str()?;
        let all = [
            Outcome::NotSent,
            Outcome::Refused,
            Outcome::Unknown,
            Outcome::Answered,
        ];
        all.into_iter()
            .find(|known| self.is_error && known.as_str() == outcome)
    }

    /// The text of it, ending in a new line unless there is none. Structured content is shown where no block is: servers
    /// repeat it as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for block in &self.content {
            text.push_str(&shown(block));
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        match &self.structured_content {
            Some(value) if self.content.is_empty() => format!("{value:#}\n"),
            Some(_) | None => text,
        }
    }
}

/// A block of content as text.
pub(crate) fn shown(block: &Value) -> String {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    match field("type") {
        Some("text") => field("text").unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => {
            // Four characters of base64 are three bytes.
            let bytes = field("data").map_or(0, |data| data.trim_end_matches('=').len() * 3 / 4);
            match field("mimeType") {
                // `image/png` says that it is an image.
                Some(mime) if mime.starts_with(kind) => format!("[{mime}, {bytes} bytes]"),
                Some(mime) => format!("[{kind} {mime}, {bytes} bytes]"),
                None => format!("[{kind} of unknown type, {bytes} bytes]"),
            }
        }
        Some("resource") => shown_resource(block.get("resource").unwrap_or(&Value::Null)),
        Some("resource_link") => {
            let name = field("title").or(field("name")).unwrap_or_default();
            format!("[resource {name}: {}]", field("uri").unwrap_or_default())
        }
        Some(_) | None => block.to_string(),
    }
}

/// An embedded resource as text.
pub(crate) fn shown_resource(resource: &Value) -> String {
    let field = |name: &str| resource.get(name).and_then(Value::as_str);
    let uri = field("uri").unwrap_or_default();
    match field("text") {
        Some(text) => format!("[resource {uri}]\n{text}"),
        None => format!("[resource {uri}, {}]", field("mimeType").unwrap_or("binary")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: &str) -> String {
        ShownAnswer::read(&RawJson::from_text(result).unwrap()).text()
    }

    #[test]
    fn text_is_shown_as_it_is_and_the_rest_is_named() {
        let result = r#"{"content": [
            {"type": "text", "text": "one\ntwo"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
            {"type": "resource_link", "uri": "c://d", "name": "d"},
            {"type": "hologram", "depth": 3}
        ]}"#;
        let shown = "one\ntwo\n[image/png, 3 bytes]\n[resource a://b]\ninside\n[resource d: c://d]\n\
                     {\"depth\":3,\"type\":\"hologram\"}\n";
        assert_eq!(text(result), shown);
    }

    #[test]
    fn structured_content_is_shown_where_nothing_else_is() {
        assert_eq!(
            text(r#"{"content": [], "structuredContent": {"a": 1}}"#),
            "{\n  \"a\": 1\n}\n"
        );
        assert_eq!(
            text(r#"{"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 1}}"#),
            "a\n"
        );
        assert_eq!(text(r#"{"content": []}"#), "");
        assert_eq!(text(r#"{"content": "odd"}"#), "{\n  \"content\": \"odd\"\n}\n");
    }
}
