//! What a client on stdin sends: its lines, and its first request before anything is started for it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, io};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use mainstay::Era;
use mainstay::gateway::Introduction;
use mainstay::gateway::message::{Message, Params, RawJson};
use mainstay::transport::{Limits, Turn};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::budget::{Account, HeldBytes, Spent};
use crate::protocol::{ClientIntroduction, ClientMeta};

/// How much is read at once.
const READ_SIZE: usize = 16 * 1024;

/// What some programs put before the first text that they write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Blank lines that are left out before they count in the turn.
const BLANK_AT_ONCE: u32 = 16;

/// An unfinished line is charged from this length on. Shorter ones are charged when they are complete.
const CHARGED_LENGTH: usize = 64 * 1024;

/// Reads lines. A line above the limit, or above the client's share of memory, is skipped in bounded memory.
pub(super) struct LineReader<R> {
    input: R,
    /// The longest line that is not skipped.
    limit: usize,
    /// Whom an unfinished line is charged to.
    account: Account,
    /// What is held for the unfinished line in `buffer`.
    held: Option<HeldBytes>,
    buffer: BytesMut,
    /// Whether `buffer` begins where the input begins.
    is_at_start: bool,
    /// How far `buffer` was searched for the end of a line.
    searched: usize,
    /// The line that is being skipped.
    skipped: Option<SkippedLine>,
    /// A client that never stops writing must not keep the thread to itself.
    turn: Turn,
}

pub(super) enum ReadLine {
    Line(Bytes),
    /// A line was skipped.
    TooLong(SkippedLine),
    End,
}

/// What was found in the buffer.
enum BufferedLine {
    Whole(ReadLine),
    /// Many lines, all of them blank. There may be more.
    Blank,
    /// No end of a line.
    Unfinished,
}

/// What is kept of a line that is too long.
#[derive(Default)]
pub(super) struct SkippedLine {
    pub(super) length: usize,
    /// Set if there was no room for the line, which may be below the limit.
    pub(super) spent: Option<Spent>,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl SkippedLine {
    fn push(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        let room = END_LENGTH - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(END_LENGTH)..]);
        let surplus = self.tail.len().saturating_sub(END_LENGTH);
        self.tail.drain(..surplus);
    }

    /// The id of the request that it is, if its two ends show one.
    pub(super) fn request_id(&self) -> Option<RawJson> {
        request_id(&self.head, &self.tail)
    }
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, limit: usize, account: Account) -> Self {
        Self {
            input,
            limit,
            account,
            held: None,
            buffer: BytesMut::new(),
            is_at_start: true,
            searched: 0,
            skipped: None,
            turn: Turn::new(),
        }
    }

    /// The next line that is not blank. A last line needs no line break. An input that fails counts as ended, and what was read of an
    /// unfinished line is dropped.
    ///
    /// Cancel safety: dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> ReadLine {
        loop {
            self.turn.yield_if_over().await;
            match self.next_buffered() {
                BufferedLine::Whole(read) => {
                    self.turn.count_message();
                    return read;
                }
                BufferedLine::Blank => {
                    self.turn.count_message();
                    continue;
                }
                BufferedLine::Unfinished => {}
            }
            self.buffer.reserve(READ_SIZE);
            match self.input.read_buf(&mut self.buffer).await {
                Ok(0) => return self.last_line(),
                Err(_) => return ReadLine::End,
                Ok(bytes) => self.turn.count_bytes(bytes),
            }
        }
    }

    /// What the client wrote behind its last line break.
    fn last_line(&mut self) -> ReadLine {
        self.drop_mark();
        let line = self.buffer.split();
        (self.searched, self.held) = (0, None);
        if let Some(mut skipped) = self.skipped.take() {
            skipped.push(&line);
            return ReadLine::TooLong(skipped);
        }
        match line.trim_ascii().is_empty() {
            true => ReadLine::End,
            false => ReadLine::Line(line.freeze()),
        }
    }

    fn next_buffered(&mut self) -> BufferedLine {
        self.drop_mark();
        for _ in 0..BLANK_AT_ONCE {
            let Some(at) = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n')
            else {
                self.searched = self.buffer.len();
                self.skip_if_too_long();
                return BufferedLine::Unfinished;
            };
            let line = self.buffer.split_to(self.searched + at + 1);
            (self.searched, self.held, self.is_at_start) = (0, None, false);
            if let Some(mut skipped) = self.skipped.take() {
                skipped.push(&line);
                return BufferedLine::Whole(ReadLine::TooLong(skipped));
            }
            if !line.trim_ascii().is_empty() {
                return BufferedLine::Whole(ReadLine::Line(line.freeze()));
            }
        }
        BufferedLine::Blank
    }

    /// Takes a byte order mark off the start of the input, once so much has come that it is one or is none.
    fn drop_mark(&mut self) {
        if !self.is_at_start || self.buffer.len() < BYTE_ORDER_MARK.len() {
            return;
        }
        self.is_at_start = false;
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.advance(BYTE_ORDER_MARK.len());
            self.searched = 0;
        }
    }

    /// Begins to skip the unfinished line if it is too long, or goes on with it.
    fn skip_if_too_long(&mut self) {
        if let Some(skipped) = &mut self.skipped {
            skipped.push(&self.buffer);
            self.buffer.clear();
            self.searched = 0;
            return;
        }
        let spent = self.hold_unfinished().err();
        if spent.is_some() || self.buffer.len() > self.limit {
            // Its memory is given back.
            let line = std::mem::take(&mut self.buffer);
            let skipped = self.skipped.insert(SkippedLine {
                spent,
                ..SkippedLine::default()
            });
            skipped.push(&line);
            (self.searched, self.held) = (0, None);
        }
    }

    /// Charges the client for an unfinished line as it grows: a client that never finishes its line holds as much as one that does.
    fn hold_unfinished(&mut self) -> Result<(), Spent> {
        let length = self.buffer.len();
        if length < CHARGED_LENGTH {
            return Ok(());
        }
        match &mut self.held {
            Some(held) => held.grow_to(length),
            None => {
                self.held = Some(self.account.hold(length)?);
                Ok(())
            }
        }
    }
}

/// The input of a client whose first request has arrived. Reading it begins with that request.
pub struct ClientInput<R> {
    /// What was read from `input` already.
    buffer: BytesMut,
    input: R,
    introduction: Option<Introduction>,
}

impl<R: AsyncRead + Unpin> ClientInput<R> {
    /// Waits for the first request of a client, for as long as the client takes. `None` if the client closes its side first.
    ///
    /// Cancel safety: dropping the future loses what was read.
    pub async fn wait_for_request(input: R) -> Option<Self> {
        Self::wait_within(input, Limits::DEFAULT_MESSAGE).await
    }

    /// Gives up after `limit` bytes without a request; such a client has no introduction.
    async fn wait_within(mut input: R, limit: usize) -> Option<Self> {
        let mut buffer = BytesMut::new();
        let (mut line, mut searched) = (0, 0);
        let mut is_ended = false;
        let mut turn = Turn::new();
        while buffer.len() <= limit {
            turn.yield_if_over().await;
            let end = buffer[searched..].iter().position(|byte| *byte == b'\n');
            searched = match end {
                Some(at) => searched + at + 1,
                None if is_ended => return None,
                None => {
                    searched = buffer.len();
                    buffer.reserve(READ_SIZE);
                    match input.read_buf(&mut (&mut buffer).limit(READ_SIZE)).await {
                        // A last line needs no line break.
                        Ok(0) => is_ended = true,
                        Err(_) => return None,
                        Ok(bytes) => {
                            turn.count_bytes(bytes);
                            continue;
                        }
                    }
                    searched
                }
            };
            turn.count_message();
            let message = &buffer[line..searched];
            let message = message.strip_prefix(BYTE_ORDER_MARK).unwrap_or(message);
            let message = Bytes::copy_from_slice(message.trim_ascii());
            line = searched;
            if let Some(FirstRequest { introduction }) = FirstRequest::of(&message).await {
                return Some(Self {
                    buffer,
                    input,
                    introduction,
                });
            }
        }
        Some(Self {
            buffer,
            input,
            introduction: None,
        })
    }

    /// How the client introduces itself. `None` if its first request does not.
    pub fn introduction(&self) -> Option<&Introduction> {
        self.introduction.as_ref()
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for ClientInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() {
            return Pin::new(&mut self.input).poll_read(context, buffer);
        }
        let length = self.buffer.len().min(buffer.remaining());
        buffer.put_slice(&self.buffer[..length]);
        self.buffer.advance(length);
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

/// A message that needs an answer.
struct FirstRequest {
    introduction: Option<Introduction>,
}

impl FirstRequest {
    async fn of(line: &Bytes) -> Option<Self> {
        if line.is_empty() {
            return None;
        }
        match Message::read_any(line).await {
            Message::Request { method, params, .. } => {
                let params = Params::read(params).await;
                let meta = ClientMeta::read(&params);
                let said = match (meta.era(), &*method) {
                    (Era::Modern, _) => meta.check().ok().map(|()| ClientIntroduction::of_request(&meta)),
                    (Era::Legacy, "initialize") => ClientIntroduction::of_initialize(&params).ok(),
                    (Era::Legacy, _other) => None,
                };
                Some(Self {
                    introduction: said.as_ref().map(ClientIntroduction::to_server),
                })
            }
            Message::Notification { .. } | Message::Response { .. } => None,
            // The session answers these with an error.
            Message::Batch(_) | Message::Garbage(_) => Some(Self { introduction: None }),
        }
    }
}

/// How many bytes of each end of a line are kept. Ids and methods are short; hosts write them before the parameters or behind them.
pub(super) const END_LENGTH: usize = 4 * 1024;

/// The id of the request with this start and end, if both say that it is one. The two may overlap. The request is too long to be
/// read; its refusal needs the id to reach the caller that waits for it.
///
/// It must not guess: an error with the id of an answer would fail another request. So there must be a method, only members of the
/// top level count, and a line of several messages has no id.
pub(super) fn request_id(head: &[u8], tail: &[u8]) -> Option<RawJson> {
    if head.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let mut members = EnvelopeMembers::default();
    members.read(head);
    if members.id.is_none() || !members.has_method {
        members.add(&last_members(tail)?);
    }
    let id = members.id.filter(|id| id.is_string() || id.is_number())?;
    (members.has_method && !members.is_answer).then(|| RawJson::from_value(&id).ok())?
}

/// What the top level of a message shows, as far as it was read.
#[derive(Default)]
struct EnvelopeMembers {
    id: Option<Value>,
    has_method: bool,
    is_answer: bool,
}

impl EnvelopeMembers {
    /// Reads members until the bytes end.
    fn read(&mut self, bytes: &[u8]) {
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        // The end of the bytes is an error, and what came before it counts.
        let _ = (&mut reader).deserialize_map(MembersVisitor(self));
    }

    fn add(&mut self, other: &Self) {
        self.id = self.id.take().or_else(|| other.id.clone());
        self.has_method |= other.has_method;
        self.is_answer |= other.is_answer;
    }
}

struct MembersVisitor<'a>(&'a mut EnvelopeMembers);

impl<'de> Visitor<'de> for MembersVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // The bytes may end inside of a number, so an id counts only when more was read behind it.
        let mut id = None;
        while let Some(key) = map.next_key::<String>()? {
            self.0.id = self.0.id.take().or(id.take());
            match key.as_str() {
                "id" => id = Some(map.next_value()?),
                "method" => {
                    self.0.has_method = true;
                    map.next_value::<IgnoredAny>()?;
                }
                "result" | "error" => {
                    self.0.is_answer = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.id = self.0.id.take().or(id);
        Ok(())
    }
}

/// The last members of the object that ends with these bytes: those from `"id"` on.
fn last_members(tail: &[u8]) -> Option<EnvelopeMembers> {
    // The parts that follow a quoted `id` inside of a value do not end with the brace of the whole message.
    let starts = (0..tail.len())
        .rev()
        .filter(|&at| tail[at..].starts_with(b"\"id\""));
    let mut starts = starts.take(START_LIMIT);
    starts.find_map(|start| {
        let members = [&b"{"[..], &tail[start..]].concat();
        serde_json::from_slice::<WholeObject>(&members)
            .ok()
            .map(|whole| whole.0)
    })
}

/// At how many places the last members are looked for.
const START_LIMIT: usize = 16;

struct WholeObject(EnvelopeMembers);

impl<'de> Deserialize<'de> for WholeObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = EnvelopeMembers::default();
        deserializer.deserialize_map(MembersVisitor(&mut members))?;
        Ok(Self(members))
    }
}

#[cfg(test)]
mod tests;
