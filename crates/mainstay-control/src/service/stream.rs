//! Bodies that are made piece by piece: server-sent events.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::{ApiProblem, LagMarker, ProblemKind};

/// How often a silent stream shows that it is alive, so that a reader notices a dead connection.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// What a reader that lost the stream waits before it comes back.
pub(super) const STREAM_START: &str = "retry: 1000\n: open\n\n";

/// A comment, which readers ignore.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// Makes the pieces of a body one after another.
pub(super) trait Pieces: Send + Sized + 'static {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// What the wait for a piece ends with: the piece, and what makes the next one.
type Made<P> = (Option<Bytes>, P);

/// Completes when a stream must end, whatever its pieces do.
pub(super) type StreamEnd = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A body of pieces. The next piece is made when the one before was sent, so a slow reader holds one piece.
pub(super) struct PieceBody<P> {
    end: Option<StreamEnd>,
    making: Pin<Box<dyn Future<Output = Made<P>> + Send>>,
    is_ended: bool,
    _watcher: OwnedSemaphorePermit,
}

impl<P: Pieces> PieceBody<P> {
    /// Fails if too many streams are open.
    pub(super) fn open(
        pieces: P,
        watchers: &Arc<Semaphore>,
        end: Option<StreamEnd>,
    ) -> Result<Self, ApiProblem> {
        let watcher = watchers.clone().try_acquire_owned().map_err(|_| {
            let problem = ApiProblem::new(ProblemKind::TooMany, "too many streams are open");
            problem.remedy("close one first")
        })?;
        Ok(Self {
            end,
            making: Box::pin(make(pieces)),
            is_ended: false,
            _watcher: watcher,
        })
    }
}

async fn make<P: Pieces>(mut pieces: P) -> Made<P> {
    (pieces.next().await, pieces)
}

impl<P: Pieces> Body for PieceBody<P> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if this.is_ended {
            return Poll::Ready(None);
        }
        if let Some(end) = &mut this.end
            && end.as_mut().poll(context).is_ready()
        {
            this.is_ended = true;
            return Poll::Ready(None);
        }
        let (piece, pieces) = ready!(this.making.as_mut().poll(context));
        match piece {
            Some(piece) => {
                this.making = Box::pin(make(pieces));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            None => {
                this.is_ended = true;
                Poll::Ready(None)
            }
        }
    }
}

/// Writes one server-sent event. JSON has no line ends outside of strings, and escapes them there.
pub(super) fn write_event(out: &mut BytesMut, event: &str, id: Option<&str>, json: &[u8]) {
    if let Some(id) = id {
        out.put_slice(b"id: ");
        out.put_slice(id.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_slice(b"event: ");
    out.put_slice(event.as_bytes());
    out.put_slice(b"\ndata: ");
    out.put_slice(json);
    out.put_slice(b"\n\n");
}

/// The marker of missing pieces.
pub(super) fn lagged(marker: &LagMarker) -> Bytes {
    let mut out = BytesMut::new();
    let json = serde_json::to_vec(marker).unwrap_or_default();
    write_event(&mut out, "lagged", None, &json);
    out.freeze()
}
