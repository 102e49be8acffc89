//! The bodies of requests and responses.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use mainstay::gateway::message::RpcError;

use super::access::Followed;
use super::head_timer::{HOLD_BACK, HeadTimer};
use super::reading::Reading;
use super::refusal::Refusal;
use crate::budget::{Account, Spent};

/// How long a client may take to send a body, and the same in turns of the connection's timer.
const BODY_WITHIN: Duration = HOLD_BACK.saturating_mul(PAUSES);
const PAUSES: u32 = 6;

/// The body of a response.
pub(super) enum Body {
    /// All of it, or what is left of it.
    Whole(Bytes),
    /// A few pieces, the last one first.
    Pieces(Vec<Bytes>),
    /// Events, as they come.
    Events(Box<Reading>),
    /// Any of them, whose end is logged.
    Followed(Box<Followed>),
}

impl Body {
    pub(super) const EMPTY: Self = Self::Whole(Bytes::new());

    /// These pieces, which are sent from where they lie. None of them is empty.
    pub(super) fn in_pieces<const N: usize>(pieces: [Bytes; N]) -> Self {
        Self::Pieces(pieces.into_iter().rev().collect())
    }

    /// The stream that it is, if it is one.
    pub(super) fn events(&mut self) -> Option<&mut Reading> {
        match self {
            Self::Whole(_) | Self::Pieces(_) => None,
            Self::Events(reading) => Some(reading),
            Self::Followed(followed) => followed.body.events(),
        }
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
            Self::Followed(followed) => followed.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::Events(_) => false,
            Self::Followed(followed) => followed.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Self::Events(_) => SizeHint::default(),
            Self::Followed(followed) => followed.body.size_hint(),
        }
    }
}

/// What is held for a request beside its body: the task that answers it, and what that needs.
const REQUEST_COST: usize = 8 * 1024;

/// Reads the body of a request, if it is no longer than this, comes in time, and can be held for its client: it is, as long as
/// any part of it is kept.
pub(super) async fn read(
    body: Incoming,
    longest: usize,
    head_timer: &HeadTimer,
    account: &Account,
) -> Result<Bytes, Refusal> {
    let mut gathering = pin!(gather(body, longest, account));
    // In steps of the timer that the connection has anyway: a timer for each body costs more than the body.
    for _ in 0..PAUSES {
        tokio::select! {
            biased;
            gathered = &mut gathering => return gathered.map_err(|unread| unread.refusal(longest)),
            () = head_timer.over() => {}
        }
    }
    let what = format!("the body did not come within {} s", BODY_WITHIN.as_secs());
    Err(Refusal::new(
        StatusCode::REQUEST_TIMEOUT,
        RpcError::INVALID_REQUEST,
        what,
    ))
}

/// Why a body was not read.
enum Unread {
    TooLong,
    Spent(Spent),
    Broken(hyper::Error),
}

/// Takes the pieces of a body. One that comes in one piece is not copied, and its end is not waited for.
async fn gather(mut body: Incoming, longest: usize, account: &Account) -> Result<Bytes, Unread> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > longest {
        return Err(Unread::TooLong);
    }
    let mut held = account.hold(REQUEST_COST + announced).map_err(Unread::Spent)?;
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        // Nobody reads trailers.
        let Ok(piece) = frame.map_err(Unread::Broken)?.into_data() else {
            continue;
        };
        let before = first.len().max(all.len());
        if piece.len() > longest - before {
            return Err(Unread::TooLong);
        }
        // What was announced is held already.
        let more = (before + piece.len()).saturating_sub(announced.max(before));
        held.grow(more).map_err(Unread::Spent)?;
        if first.is_empty() && all.is_empty() {
            first = piece;
        } else {
            if all.is_empty() {
                all.reserve(first.len() + piece.len());
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&piece);
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(held.attach(if all.is_empty() { first } else { all.freeze() }))
}

impl Unread {
    fn refusal(self, longest: usize) -> Refusal {
        match self {
            Self::TooLong => {
                let what = format!("the body is longer than {longest} bytes");
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, RpcError::INVALID_REQUEST, what)
            }
            Self::Spent(spent) => spent.into(),
            Self::Broken(error) => {
                let what = format!("the body cannot be read: {error}");
                Refusal::new(StatusCode::BAD_REQUEST, RpcError::PARSE_ERROR, what)
            }
        }
    }
}
