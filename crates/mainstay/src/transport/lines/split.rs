//! Cuts a stream of bytes into lines, without copying them and without growing past the limit.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use crate::transport::receiving;

/// Room made for each read: more than most messages, little enough for a thousand idle connections.
const READ_CHUNK: usize = 16 * 1024;

/// The room under which new room is made: until then the short lines of one connection share one allocation.
const LEAST_ROOM: usize = 4 * 1024;

/// A line longer than this takes its memory with it when it is handed on, so that the buffer is small again.
const KEPT_BUFFER: usize = 64 * 1024;

/// How much of an overlong line is kept: the start and the end of it, where the id of an answer stands.
const HEAD: usize = 4 * 1024;
const TAIL: usize = 1024;

/// A line that is this many times the limit is taken to have no end.
const ENDLESS: u64 = 16;

/// Empty lines that are left out before others have a turn. Each costs as much as a short message.
pub(super) const EMPTY_AT_ONCE: u32 = 16;

/// What some programs put before the first text that they write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The cutter. Bytes are read into `buffer()`, then `next()` is asked until it has no more.
#[derive(Debug)]
pub(super) struct Splitter {
    limit: usize,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    scanned: usize,
    skipping: Option<Skipped>,
    /// Whether the buffer begins where the stream begins.
    is_at_start: bool,
}

#[derive(Debug)]
pub(super) enum Piece {
    Line(Bytes),
    Skipped(Skipped),
    /// Many lines, all of them empty. There may be more.
    Empty,
}

/// What is kept of an overlong line.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    head: Vec<u8>,
    tail: Vec<u8>,
    length: u64,
}

impl Splitter {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: BytesMut::new(),
            scanned: 0,
            skipping: None,
            is_at_start: true,
        }
    }

    /// Where the next bytes are to be put.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < LEAST_ROOM {
            let room = receiving::capacity_to_add(self.buffer.len(), READ_CHUNK, self.limit);
            self.buffer.reserve(room);
        }
        &mut self.buffer
    }

    /// The next whole line; empty ones are left out, and a byte order mark before the first.
    pub(super) fn next(&mut self) -> Option<Piece> {
        self.drop_mark();
        let mut empty = 0;
        while let Some(found) = memchr(b'\n', &self.buffer[self.scanned..]) {
            let mut line = self.buffer.split_to(self.scanned + found + 1);
            line.truncate(line.len() - 1);
            self.scanned = 0;
            if let Some(mut skipped) = self.skipping.take() {
                skipped.push(&line);
                return Some(Piece::Skipped(skipped.ended()));
            }
            if line.len() > KEPT_BUFFER {
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            let length = without_return(&line).len();
            if length > self.limit {
                return Some(Piece::Skipped(Skipped::whole(&line).ended()));
            }
            line.truncate(length);
            if !line.trim_ascii().is_empty() {
                return Some(Piece::Line(line.freeze()));
            }
            empty += 1;
            if empty == EMPTY_AT_ONCE {
                return Some(Piece::Empty);
            }
        }
        self.keep_within_limit();
        None
    }

    /// What the stream ends with, if that is not a line break.
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        if self.skipping.is_some() {
            return None;
        }
        let rest = std::mem::take(&mut self.buffer);
        self.scanned = 0;
        // Half a mark is not measured while more may follow. Nothing follows now.
        let fits = without_return(&rest).len() <= self.limit;
        (fits && !rest.trim_ascii().is_empty()).then(|| rest.freeze())
    }

    /// Takes the mark off the start of the stream, as soon as so much has come that it is one or is none.
    fn drop_mark(&mut self) {
        if !self.is_at_start || BYTE_ORDER_MARK.starts_with(&self.buffer) && self.buffer != BYTE_ORDER_MARK {
            return;
        }
        self.is_at_start = false;
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.advance(BYTE_ORDER_MARK.len());
            self.scanned = 0;
        }
    }

    /// Whether a line is being skipped that is so long that it is no line.
    pub(super) fn line_never_ends(&self) -> bool {
        let endless = ENDLESS.saturating_mul(self.limit as u64);
        self.skipping
            .as_ref()
            .is_some_and(|skipped| skipped.length > endless)
    }

    fn keep_within_limit(&mut self) {
        match &mut self.skipping {
            Some(skipped) => {
                skipped.push(&self.buffer);
                self.buffer.clear();
                self.scanned = 0;
            }
            // What may still be a mark, or the return before a line feed, is no part of the line.
            None if !self.is_at_start && without_return(&self.buffer).len() > self.limit => {
                self.skipping = Some(Skipped::whole(&self.buffer));
                self.buffer = BytesMut::new();
                self.scanned = 0;
            }
            None => self.scanned = self.buffer.len(),
        }
    }
}

impl Skipped {
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn whole(line: &[u8]) -> Self {
        let mut skipped = Self::default();
        skipped.push(line);
        skipped
    }

    /// The same, without the return that its line feed followed.
    fn ended(mut self) -> Self {
        if self.tail.pop_if(|last| *last == b'\r').is_some() {
            self.length -= 1;
            let length = usize::try_from(self.length).unwrap_or(usize::MAX);
            self.head.truncate(length);
        }
        self
    }

    fn push(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let head = bytes.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..head]);
        let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
        let surplus = (self.tail.len() + tail.len()).saturating_sub(TAIL);
        self.tail.drain(..surplus);
        self.tail.extend_from_slice(tail);
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(splitter: &mut Splitter, bytes: &[u8]) -> Vec<String> {
        splitter.buffer().extend_from_slice(bytes);
        let mut found = Vec::new();
        while let Some(piece) = splitter.next() {
            found.push(match piece {
                Piece::Line(line) => String::from_utf8_lossy(&line).into_owned(),
                Piece::Skipped(skipped) => format!("skipped {}", skipped.length),
                Piece::Empty => continue,
            });
        }
        found
    }

    /// Checks what a text is split into, wherever the reads fall.
    fn assert_split(text: &[u8], limit: usize, expected: &[&str]) {
        for step in 1..text.len() {
            let mut splitter = Splitter::new(limit);
            let chunks = text.chunks(step);
            let found: Vec<_> = chunks.flat_map(|chunk| pieces(&mut splitter, chunk)).collect();
            assert_eq!(found, expected, "reads of {step}");
        }
    }

    #[test]
    fn lines_are_found_wherever_the_reads_fall() {
        let text = b"one\r\n\n  \n\r\ntwo\nthree is longer\nleft";
        assert_split(&text[..], 100, &["one", "two", "three is longer"]);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_before_the_first_line_and_nowhere_else() {
        let text = b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n";
        assert_split(&text[..], 100, &["one", "\u{feff}two"]);
    }

    #[test]
    fn what_is_left_at_the_end_is_given_once_and_not_if_it_was_skipped() {
        for (text, left) in [
            (&b"one\nleft"[..], Some("left")),
            (b"\xef\xbb\xbfleft", Some("left")),
            (b"one\n", None),
            (b"one\n \r", None),
            (b"one\nlonger than the limit", None),
        ] {
            let mut splitter = Splitter::new(10);
            pieces(&mut splitter, text);
            assert_eq!(splitter.rest().as_deref(), left.map(str::as_bytes));
            assert_eq!(splitter.rest(), None);
        }
        let mut splitter = Splitter::new(1);
        pieces(&mut splitter, &BYTE_ORDER_MARK[..2]);
        assert_eq!(splitter.rest(), None, "half a mark is longer than the limit");
    }

    #[test]
    fn an_overlong_line_is_skipped_and_reading_goes_on() {
        let text = [&b"1234567890"[..], b"\n12345678901\n", &[b'x'; 50], b"\nlast\n"].concat();
        assert_split(&text[..], 10, &["1234567890", "skipped 11", "skipped 50", "last"]);
    }

    #[test]
    fn neither_a_mark_nor_a_return_counts_towards_the_limit_wherever_the_reads_fall() {
        let text = b"\xef\xbb\xbf1234567890\r\n1234567890\r\n12345678901\r\n1234567890\rx\n";
        assert_split(
            &text[..],
            10,
            &["1234567890", "1234567890", "skipped 11", "skipped 12"],
        );
    }

    #[test]
    fn the_head_and_the_tail_of_a_skipped_line_are_kept() {
        let line: Vec<u8> = (0..100_000u32).map(|n| b'a' + (n % 26) as u8).collect();
        for step in [1, 7, 1000, 5000, 200_000] {
            let mut skipped = Skipped::default();
            line.chunks(step).for_each(|chunk| skipped.push(chunk));
            assert_eq!(skipped.head(), &line[..HEAD]);
            assert_eq!(skipped.tail(), &line[line.len() - TAIL..]);
            assert_eq!(skipped.length(), 100_000);
        }
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory_and_is_called_endless() {
        let limit = 100_000;
        let mut splitter = Splitter::new(limit);
        let chunk = [b'x'; 10_000];
        let mut pushed = 0;
        while !splitter.line_never_ends() {
            assert!(pieces(&mut splitter, &chunk).is_empty());
            pushed += chunk.len();
            assert!(splitter.buffer.capacity() <= 2 * (limit + READ_CHUNK));
            assert!(pushed <= 17 * limit);
        }
        assert!(splitter.buffer.capacity() <= KEPT_BUFFER);
    }

    #[test]
    fn the_buffer_is_small_again_after_a_large_line() {
        let mut splitter = Splitter::new(64 << 20);
        let large = [vec![b'x'; 8 << 20], b"\nnext\nand".to_vec()].concat();
        let found = pieces(&mut splitter, &large);
        assert_eq!((found.len(), found[1].as_str()), (2, "next"));
        for _ in 0..100 {
            assert_eq!(pieces(&mut splitter, b"ab\nab").len(), 1);
            assert!(splitter.buffer().capacity() <= KEPT_BUFFER);
        }
    }

    #[test]
    fn a_large_line_grows_where_it_lies() {
        let mut splitter = Splitter::new(64 << 20);
        let mut places = Vec::new();
        for _ in 0..(8 << 20) / READ_CHUNK {
            splitter.buffer().extend_from_slice(&[b'x'; READ_CHUNK]);
            assert!(splitter.next().is_none());
            places.push(splitter.buffer.as_ptr());
        }
        places.drain(..=(256 << 10) / READ_CHUNK);
        places.dedup();
        assert_eq!(places.len(), 1);
    }

    #[test]
    fn a_large_line_is_handed_on_without_a_copy() {
        let mut splitter = Splitter::new(64 << 20);
        splitter.buffer().extend_from_slice(&vec![b'x'; 1 << 20]);
        assert!(splitter.next().is_none());
        splitter.buffer().extend_from_slice(b"\n");
        let at = splitter.buffer.as_ptr();
        let Some(Piece::Line(line)) = splitter.next() else {
            panic!("the line is whole");
        };
        assert_eq!(line.as_ptr(), at);
    }
}
