//! The `error` of a JSON-RPC answer.

use std::fmt;

use serde::Serialize;

use super::object::Object;
use super::raw::RawJson;
use crate::PlainText;

/// How much of a message is shown where the error is written as text; the whole of it is in [`RpcError::message`].
const MAX_SHOWN_CHARS: usize = 4096;

/// An error the remote peer answered with, or that is to be answered to it.
///
/// One that was received keeps its whole object, fields unknown to JSON-RPC included, and is written back as it came if it is valid.
#[derive(Clone, PartialEq, Eq)]
pub struct RpcError {
    code: i64,
    message: String,
    data: Option<RawJson>,
    raw: RawJson,
}

impl RpcError {
    /// The remote peer could not parse the message.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The remote peer failed; also stands for a code that was missing or no integer.
    pub const INTERNAL_ERROR: i64 = -32603;

    /// An error to answer with.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self::build(code, message.into(), None)
    }

    /// The same error with `data`.
    #[must_use]
    pub fn with_data(self, data: RawJson) -> Self {
        Self::build(self.code, self.message, Some(data))
    }

    /// The number that says what kind of error it is.
    pub fn code(&self) -> i64 {
        self.code
    }

    /// What went wrong, in the words of the remote peer, which may hold anything; `Display` shows them as [`PlainText`].
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whatever was attached.
    pub fn data(&self) -> Option<&RawJson> {
        self.data.as_ref()
    }

    /// The whole `error` object.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Reads an `error` as leniently as it can be: a server's words are worth more than its form. One without a whole number as `code`
    /// and a text as `message`, which clients could not read, becomes the `data` of one that has both.
    pub(super) fn read(raw: RawJson) -> Self {
        let [code, message, data] = Object::find(&raw, ["code", "message", "data"]).unwrap_or_default();
        let is_whole = |code: &RawJson| code.parse::<f64>().is_ok_and(|code| code.fract() == 0.0);
        let has_code = code.as_ref().is_some_and(is_whole);
        let code = code.and_then(|code| code.parse().ok());
        let code = code.unwrap_or(Self::INTERNAL_ERROR);
        match message.and_then(|message| message.parse().ok()) {
            Some(message) if has_code => Self {
                code,
                message,
                data,
                raw,
            },
            message => {
                let words = message.or_else(|| raw.parse().ok());
                Self::build(code, words.unwrap_or_else(|| raw.to_string()), Some(raw))
            }
        }
    }

    fn build(code: i64, message: String, data: Option<RawJson>) -> Self {
        #[derive(Serialize)]
        struct Fields<'a> {
            code: i64,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            data: Option<&'a RawJson>,
        }
        let fields = Fields {
            code,
            message: &message,
            data: data.as_ref(),
        };
        let raw = RawJson::from_value(&fields).expect("a number, a string and valid JSON can be written");
        Self {
            code,
            message,
            data,
            raw,
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = PlainText::line(&self.message).cut(MAX_SHOWN_CHARS);
        write!(f, "{message} (code {})", self.code)
    }
}

impl fmt::Debug for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RpcError").field(&self.raw).finish()
    }
}

impl std::error::Error for RpcError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_received_error_is_kept_whole() {
        let text = r#"{"code":-32002,"message":"gone","data":{"uri":"x"},"x-more":[1, 2]}"#;
        let error = RpcError::read(RawJson::from_text(text).unwrap());
        assert_eq!((error.code(), error.message()), (-32002, "gone"));
        assert_eq!(error.data().unwrap().as_str(), r#"{"uri":"x"}"#);
        assert_eq!(error.raw().as_str(), text);
        assert_eq!(error.to_string(), "gone (code -32002)");
    }

    #[test]
    fn an_error_as_text_cannot_drive_a_terminal() {
        let error = RpcError::new(-1, "no\u{1b}]0;title\u{7}\u{1b}[2J such\u{202e}\r\nfile");
        assert_eq!(error.to_string(), "no such file (code -1)");
        assert!(
            error.message().contains('\u{1b}'),
            "the message itself stays as it came"
        );
        let endless = RpcError::new(-1, "x".repeat(MAX_SHOWN_CHARS + 1));
        assert!(endless.to_string().ends_with("x… (code -1)"));
    }

    #[test]
    fn an_error_of_odd_shape_still_says_what_the_server_said() {
        for (text, message) in [
            (r#""boom""#, "boom"),
            (r#"{"code":"E_FAIL","message":"boom"}"#, "boom"),
            (r#"{"reason":"boom"}"#, r#"{"reason":"boom"}"#),
        ] {
            let error = RpcError::read(RawJson::from_text(text).unwrap());
            assert_eq!(
                (error.code(), error.message()),
                (RpcError::INTERNAL_ERROR, message)
            );
        }
    }

    #[test]
    fn an_error_of_our_own_is_written_with_its_data() {
        let error = RpcError::new(-1, "no \"x\"").with_data(RawJson::from_text("[ 1 ]").unwrap());
        assert_eq!(
            error.raw().as_str(),
            r#"{"code":-1,"message":"no \"x\"","data":[ 1 ]}"#
        );
    }
}
