//! The bodies of requests and responses.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::{Frame, Incoming, SizeHint};
use mainstay::message::RpcError;
use tokio::time::timeout;

use super::reading::Reading;
use super::refusal::Refusal;

/// How long a client may take to send a body.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// The body of a response.
pub(super) enum Body {
    /// All of it, or what is left of it.
    Whole(Bytes),
    /// A few pieces, the last one first.
    Pieces(Vec<Bytes>),
    /// Events, as they come.
    Events(Box<Reading>),
}

impl Body {
    pub(super) const EMPTY: Self = Self::Whole(Bytes::new());

    /// These pieces, which are sent from where they lie. None of them is empty.
    pub(super) fn in_pieces<const N: usize>(pieces: [Bytes; N]) -> Self {
        Self::Pieces(pieces.into_iter().rev().collect())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Pieces(pieces) => Poll::Ready(pieces.pop().map(|piece| Ok(Frame::data(piece)))),
            Self::Events(reading) => reading
                .poll_piece(context)
                .map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// Reads the body of a request, if it is no longer than this and comes in time.
pub(super) async fn read(body: Incoming, longest: usize) -> Result<Bytes, Refusal> {
    let too_large = || {
        let what = format!("the body is longer than {longest} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, RpcError::INVALID_REQUEST, what)
    };
    let announced = hyper::body::Body::size_hint(&body).lower();
    if usize::try_from(announced).map_or(true, |announced| announced > longest) {
        return Err(too_large());
    }
    let collected = timeout(BODY_WITHIN, Limited::new(body, longest).collect()).await;
    let collected = collected.map_err(|_| {
        let what = format!("the body did not come within {} s", BODY_WITHIN.as_secs());
        Refusal::new(StatusCode::REQUEST_TIMEOUT, RpcError::INVALID_REQUEST, what)
    })?;
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => {
            let what = format!("the body cannot be read: {error}");
            Err(Refusal::new(StatusCode::BAD_REQUEST, RpcError::PARSE_ERROR, what))
        }
    }
}
