//! The writing half of a connection, and the ways it ends early.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;

use super::coding::Encoder;
use super::plan::Plan;
use super::server::HttpServerCore;
use super::wire::{ResponseHead, chunk};

/// What some servers write before a text.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Why no further request is read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// It is closed: by the peer, or because a fault says so.
    Close,
    /// It is reset.
    Reset,
}

#[derive(Debug)]
pub(super) struct Out {
    server: Arc<HttpServerCore>,
    writer: OwnedWriteHalf,
    /// Compresses the body whose head was written last.
    encoder: Option<Encoder>,
}

impl Out {
    pub(super) fn new(server: Arc<HttpServerCore>, writer: OwnedWriteHalf) -> Self {
        Self {
            server,
            writer,
            encoder: None,
        }
    }

    /// Writes bytes as they are, unless the server is silent; then it never returns.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        self.server.voice().await;
        self.writer
            .write_all(bytes)
            .await
            .map_err(|_| ConnectionEnd::Close)
    }

    /// Writes the head as the plan has it, after the plan's delay.
    pub(super) async fn head(&mut self, head: ResponseHead, plan: &Plan) -> Result<(), ConnectionEnd> {
        wait(plan.delay).await;
        let head = match plan.huge_header {
            Some(bytes) => head.with("X-Huge", "x".repeat(bytes)),
            None => head,
        };
        let head = match plan.compression {
            Some(compression) => head.with("Content-Encoding", compression.name()),
            None => head,
        };
        self.encoder = plan.compression.map(Encoder::new);
        let bytes = head.bytes();
        let Some(whole) = plan.slow_head else {
            return self.send(&bytes).await;
        };
        let pieces: Vec<_> = bytes.chunks(bytes.len().div_ceil(8)).collect();
        let pause = whole / u32::try_from(pieces.len()).unwrap_or(1);
        for piece in pieces {
            self.send(piece).await?;
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// A complete answer with a length.
    pub(super) async fn whole(
        &mut self,
        head: ResponseHead,
        body: &[u8],
        plan: &Plan,
    ) -> Result<(), ConnectionEnd> {
        let marked = plan.byte_order_mark.then(|| [BYTE_ORDER_MARK, body].concat());
        let body = marked.as_deref().unwrap_or(body);
        let compressed = plan
            .compression
            .map(|compression| Encoder::new(compression).whole(body));
        let body = compressed.as_deref().unwrap_or(body);
        self.head(head.with("Content-Length", body.len().to_string()), plan)
            .await?;
        if plan.silent {
            return std::future::pending().await;
        }
        if let Some(limit) = plan.stop_after {
            self.send(&body[..limit.min(body.len())]).await?;
            return std::future::pending().await;
        }
        match plan.drop_after {
            Some(limit) if limit < body.len() => {
                self.send(&body[..limit]).await?;
                Err(ConnectionEnd::Close)
            }
            Some(_) | None => self.send(body).await,
        }
    }

    /// A body whose length is not announced; its head was written.
    pub(super) fn chunks(&mut self, limit: Option<usize>) -> Chunks<'_> {
        Chunks {
            out: self,
            left: limit,
        }
    }

    /// Closes the connection by a reset, where its reader is dropped already.
    pub(super) fn reset(self) {
        // Where the option cannot be set, the peer sees a plain close instead.
        let _plain = self.writer.as_ref().set_zero_linger();
        // Dropping this half would say a proper goodbye first.
        self.writer.forget();
    }
}

/// A chunked body that may be cut after so many bytes.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    out: &'a mut Out,
    left: Option<usize>,
}

impl Chunks<'_> {
    pub(super) async fn send(&mut self, payload: &[u8]) -> Result<(), ConnectionEnd> {
        let encoder = self.out.encoder.as_mut();
        let compressed = encoder.map(|encoder| encoder.piece(payload));
        let payload = compressed.as_deref().unwrap_or(payload);
        match &mut self.left {
            Some(left) if payload.len() > *left => {
                let rest = &payload[..*left];
                if !rest.is_empty() {
                    self.out.send(&chunk(rest)).await?;
                }
                Err(ConnectionEnd::Close)
            }
            Some(left) => {
                *left -= payload.len();
                self.out.send(&chunk(payload)).await
            }
            None => self.out.send(&chunk(payload)).await,
        }
    }

    pub(super) async fn finish(self) -> Result<(), ConnectionEnd> {
        self.out.send(&chunk(b"")).await
    }
}

/// Lets the plan's delay pass.
pub(super) async fn wait(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}
