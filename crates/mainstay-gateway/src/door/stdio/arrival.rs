//! The first words of a client, heard before anything is started for it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use mainstay::Era;
use mainstay::gateway::Introduction;
use mainstay::gateway::message::{Message, Params};
use mainstay::transport::Limits;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::introduction::Said;
use crate::protocol::RequestMeta;

/// How much is read at once.
const PIECE: usize = 16 * 1024;

/// The input of a client that has begun to speak. It is read from the beginning, as if nobody had listened yet.
pub struct Arrival<R> {
    /// What was heard and is not read again yet.
    heard: BytesMut,
    input: R,
    introduction: Option<Introduction>,
}

impl<R: AsyncRead + Unpin> Arrival<R> {
    /// Waits for a client to ask for something; `None` when it leaves without. Nothing runs for it meanwhile, so it may take
    /// its time.
    ///
    /// Cancel safety: dropping it loses what was heard.
    pub async fn wait(input: R) -> Option<Self> {
        Self::hear(input, Limits::DEFAULT_MESSAGE).await
    }

    /// What is longer than `most` is refused by whoever reads it, and introduces nobody.
    async fn hear(mut input: R, most: usize) -> Option<Self> {
        let mut heard = BytesMut::new();
        let (mut line, mut searched) = (0, 0);
        while heard.len() <= most {
            let Some(at) = heard[searched..].iter().position(|byte| *byte == b'\n') else {
                searched = heard.len();
                heard.reserve(PIECE);
                match input.read_buf(&mut (&mut heard).limit(PIECE)).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => continue,
                }
            };
            searched += at + 1;
            let message = Bytes::copy_from_slice(heard[line..searched].trim_ascii());
            line = searched;
            if let Some(asked) = Asked::of(&message) {
                return Some(Self {
                    heard,
                    input,
                    introduction: asked.by,
                });
            }
        }
        Some(Self {
            heard,
            input,
            introduction: None,
        })
    }

    /// How the client introduces itself; `None` when it asks before it has.
    pub fn introduction(&self) -> Option<&Introduction> {
        self.introduction.as_ref()
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Arrival<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.heard.is_empty() {
            return Pin::new(&mut self.input).poll_read(context, buffer);
        }
        let piece = self.heard.len().min(buffer.remaining());
        buffer.put_slice(&self.heard[..piece]);
        self.heard.advance(piece);
        if self.heard.is_empty() {
            self.heard = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

/// A message that wants an answer.
struct Asked {
    by: Option<Introduction>,
}

impl Asked {
    fn of(line: &Bytes) -> Option<Self> {
        if line.is_empty() {
            return None;
        }
        match Message::read(line) {
            Message::Request { method, params, .. } => {
                let params = Params::new(params);
                let meta = RequestMeta::read(&params);
                let said = match (meta.era(), &*method) {
                    (Era::Modern, _) => meta.check().ok().map(|()| Said::of_request(&meta)),
                    (Era::Legacy, "initialize") => Said::of_initialize(params.as_raw()).ok(),
                    (Era::Legacy, _other) => None,
                };
                Some(Self {
                    by: said.as_ref().map(Said::introduction),
                })
            }
            Message::Notification { .. } | Message::Response { .. } => None,
            // It is told what is wrong.
            Message::Batch(_) | Message::Garbage(_) => Some(Self { by: None }),
        }
    }
}

#[cfg(test)]
mod tests;
