//! A call that a caller builds and awaits, and its reply.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::Generation;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::Server;
use super::error::CallError;
use super::options::CallOptions;
use crate::TraceContext;
use crate::config::Replay;
use crate::handler::ClientHandler;
use crate::protocol::Capability;
use crate::wire::{Object, Params, RawJson};

/// A call that is made when it is awaited. Without further settings it follows the server's configuration.
///
/// Cancel safety: dropping the future cancels the call at the server.
#[must_use = "a call is made when it is awaited"]
pub struct Call {
    request: Result<(Server, Request<'static>), CallError>,
    options: CallOptions,
}

/// The future of a [`Call`].
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send>>;

/// What is sent, and whether sending it twice is harmless.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Params,
    pub(crate) repeatable: Repeatable,
    /// The capability that the server must have declared. A request that is passed on needs none: its server decides.
    pub(crate) needs: Option<Capability>,
}

/// Whether a call that may have run can be made again without harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeatable {
    /// It only reads.
    Always,
    /// Nothing is known of it.
    Never,
    /// If the tool that its parameters name is hinted so. The hint is looked up when it is needed: a call may come
    /// before the first listing.
    AsHinted,
}

impl Call {
    pub(super) fn new(server: &Server, request: Result<Request<'static>, CallError>) -> Self {
        Self {
            request: request.map(|request| (server.clone(), request)),
            options: CallOptions::default(),
        }
    }

    /// A call that cannot be made: awaiting it returns this error.
    pub(crate) fn failed(error: CallError) -> Self {
        Self {
            request: Err(error),
            options: CallOptions::default(),
        }
    }

    /// Replaces all options.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    /// See [`CallOptions::timeout`].
    pub fn timeout(self, limit: Duration) -> Self {
        self.change(|options| options.timeout(limit))
    }

    /// See [`CallOptions::idle_timeout`].
    pub fn idle_timeout(self, limit: Duration) -> Self {
        self.change(|options| options.idle_timeout(limit))
    }

    /// See [`CallOptions::wait_timeout`].
    pub fn wait_timeout(self, limit: Duration) -> Self {
        self.change(|options| options.wait_timeout(limit))
    }

    /// See [`CallOptions::fail_fast`].
    pub fn fail_fast(self) -> Self {
        self.change(CallOptions::fail_fast)
    }

    /// See [`CallOptions::replay`].
    pub fn replay(self, replay: Replay) -> Self {
        self.change(|options| options.replay(replay))
    }

    /// See [`CallOptions::progress`].
    pub fn progress(self, to: mpsc::Sender<RawJson>) -> Self {
        self.change(|options| options.progress(to))
    }

    /// See [`CallOptions::meta`].
    pub fn meta(self, key: impl Into<String>, value: RawJson) -> Self {
        self.change(|options| options.meta(key, value))
    }

    /// See [`CallOptions::handler`].
    pub fn handler(self, handler: Arc<dyn ClientHandler>) -> Self {
        self.change(|options| options.handler(handler))
    }

    /// See [`CallOptions::trace`].
    pub fn trace(self, caller: TraceContext) -> Self {
        self.change(|options| options.trace(caller))
    }

    fn change(self, change: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        Self {
            options: change(self.options),
            ..self
        }
    }
}

impl IntoFuture for Call {
    type Output = Result<Reply, CallError>;
    type IntoFuture = CallFuture;

    fn into_future(self) -> CallFuture {
        let mut options = self.options;
        match self.request {
            Ok((server, mut request)) => {
                Box::pin(async move { server.0.call(&mut request, &mut options).await })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("request", &self.request)
            .field("options", &self.options)
            .finish()
    }
}

/// The reply to a call: the result as the server sent it, and the connection that it came from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The connection that answered.
    pub generation: Generation,
    /// The result, byte for byte.
    pub result: RawJson,
}

impl Reply {
    /// Whether the tool says that it failed (`isError`).
    pub fn is_error(&self) -> bool {
        self.member("isError")
            .is_some_and(|value| value.as_str() == "true")
    }

    /// The text of the tool's result: its text blocks, joined by newlines. Empty where it has none.
    pub fn text(&self) -> String {
        #[derive(Deserialize)]
        struct TextBlock {
            r#type: String,
            text: String,
        }
        let blocks = self.member("content").and_then(|content| content.parse().ok());
        let blocks: Vec<RawJson> = blocks.unwrap_or_default();
        let texts = blocks.iter().filter_map(|block| block.parse::<TextBlock>().ok());
        let texts: Vec<String> = texts
            .filter(|block| block.r#type == "text")
            .map(|block| block.text)
            .collect();
        texts.join("\n")
    }

    /// The tool's structured result (`structuredContent`), where it gives one.
    pub fn structured(&self) -> Option<RawJson> {
        self.member("structuredContent")
            .filter(|value| *value != RawJson::NULL)
    }

    fn member(&self, name: &str) -> Option<RawJson> {
        let [member] = Object::find(&self.result, [name])?;
        member
    }

    /// The result as a type of the embedder's or of the SDK's, which may know fewer fields than the server sent.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.result.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(result: &str) -> Reply {
        Reply {
            generation: Generation(1),
            result: RawJson::from_text(result).expect("JSON"),
        }
    }

    #[test]
    fn a_reply_shows_its_error_flag_its_text_and_its_structured_content() {
        let full = reply(
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"","text":"no"},7,{"type":"text","text":"b"}],
                "structuredContent":{"n":1.0},"isError":true}"#,
        );
        assert!(full.is_error());
        assert_eq!(full.text(), "a\nb");
        assert_eq!(full.structured().expect("it is there").as_str(), r#"{"n":1.0}"#);
        for bare in [
            "{}",
            "3",
            r#"{"isError":"true","structuredContent":null,"content":{}}"#,
        ] {
            let bare = reply(bare);
            assert!(!bare.is_error());
            assert_eq!(bare.text(), "");
            assert_eq!(bare.structured(), None);
        }
    }
}
