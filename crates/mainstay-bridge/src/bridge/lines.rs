//! Lines from a descriptor that blocks, or that another process has set not to block.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::PollFlags;

use crate::wait::{wait_for, wait_readable};

/// How much is read at once.
const READ_SIZE: usize = 16 * 1024;

/// A buffer that has grown larger is given back when its line has passed.
const KEPT_SIZE: usize = 64 * 1024;

/// The longest line that is held as a whole: the longest message that the daemon takes.
pub(super) const LINE_LIMIT: usize = 64 * 1024 * 1024;

pub(super) struct BlockingLines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    start: usize,
    /// How far the buffer was searched for the end of that line.
    searched: usize,
    /// Whether the line that is being read was too long, and parts of it were passed on.
    is_in_parts: bool,
    limit: usize,
    /// Whether a last line needs no end. A daemon that was killed may have written a part of a line.
    ends_last_line: bool,
}

/// What was read.
pub(super) enum LinePiece<'a> {
    /// A line, with its end.
    Line(&'a [u8]),
    /// A part of a line that is too long to be held. `is_last` with the end of it.
    Part { bytes: &'a [u8], is_last: bool },
    /// The other side has closed.
    End,
}

impl<R: Read + AsFd> BlockingLines<R> {
    /// The lines of a daemon. What it wrote of an unfinished line is dropped.
    pub(super) fn of_daemon(input: R) -> Self {
        Self::with_limit(input, LINE_LIMIT)
    }

    /// The lines of a host. Its last line needs no end.
    pub(super) fn of_host(input: R) -> Self {
        Self {
            ends_last_line: true,
            ..Self::with_limit(input, LINE_LIMIT)
        }
    }

    fn with_limit(input: R, limit: usize) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            is_in_parts: false,
            limit,
            ends_last_line: false,
        }
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.input
    }

    /// Waits until there is something to read; `false` if the time is over first.
    pub(super) fn wait_until(&self, deadline: Instant) -> bool {
        let is_buffered = memchr::memchr(b'\n', &self.buffer[self.start..]).is_some();
        let left = deadline.saturating_duration_since(Instant::now());
        is_buffered || wait_readable(&self.input, left).unwrap_or(true)
    }

    /// The next piece. An input that fails counts as ended.
    pub(super) fn next(&mut self) -> LinePiece<'_> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let (start, end) = (self.start, self.searched + at + 1);
                (self.start, self.searched) = (end, end);
                let is_last = std::mem::take(&mut self.is_in_parts);
                let bytes = &self.buffer[start..end];
                return if is_last {
                    LinePiece::Part { bytes, is_last }
                } else {
                    LinePiece::Line(bytes)
                };
            }
            if self.buffer.len() - self.start > self.limit
                || (self.is_in_parts && self.start < self.buffer.len())
            {
                self.is_in_parts = true;
                let start = self.start;
                self.start = self.buffer.len();
                self.searched = self.start;
                return LinePiece::Part {
                    bytes: &self.buffer[start..],
                    is_last: false,
                };
            }
            self.make_room();
            let filled = self.buffer.len();
            self.buffer.resize(filled + READ_SIZE, 0);
            let read = read(&mut self.input, &mut self.buffer[filled..]);
            let length = *read.as_ref().unwrap_or(&0);
            self.buffer.truncate(filled + length);
            self.searched = filled;
            if length == 0 {
                let is_unfinished = self.is_in_parts || self.start < self.buffer.len();
                if !(self.ends_last_line && is_unfinished && read.is_ok()) {
                    return LinePiece::End;
                }
                self.buffer.push(b'\n');
            }
        }
    }

    /// Drops what was passed on.
    fn make_room(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEPT_SIZE {
                self.buffer = Vec::new();
            }
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.start = 0;
    }
}

fn read(input: &mut (impl Read + AsFd), buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for(input, PollFlags::IN)?,
            done => return done,
        }
    }
}

/// Writes all of it, also to a descriptor that is set not to block.
pub(super) fn write_all(output: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for(output, PollFlags::OUT)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    /// What comes out, the parts of one line joined and marked.
    fn passed(limit: usize, written: &[&[u8]]) -> Vec<(Vec<u8>, bool)> {
        let (mut near, remote) = UnixStream::pair().unwrap();
        let written: Vec<Vec<u8>> = written.iter().map(|piece| piece.to_vec()).collect();
        let writing = thread::spawn(move || {
            for piece in written {
                near.write_all(&piece).unwrap();
            }
        });
        let mut lines = BlockingLines::with_limit(remote, limit);
        let (mut passed, mut parts) = (Vec::new(), Vec::new());
        loop {
            match lines.next() {
                LinePiece::Line(line) => passed.push((line.to_vec(), false)),
                LinePiece::Part { bytes, is_last } => {
                    parts.extend_from_slice(bytes);
                    if is_last {
                        passed.push((std::mem::take(&mut parts), true));
                    }
                }
                LinePiece::End => break,
            }
        }
        writing.join().unwrap();
        passed
    }

    #[test]
    fn lines_come_whole_however_they_are_written_and_an_unfinished_one_is_dropped() {
        let passed = passed(100, &[b"one\ntw", b"o\n\nth", b"ree\nhalf"]);
        let lines: Vec<_> = passed.iter().map(|(line, _)| line.as_slice()).collect();
        assert_eq!(lines, [&b"one\n"[..], b"two\n", b"\n", b"three\n"]);
    }

    #[test]
    fn the_last_line_of_a_host_needs_no_end() {
        let (mut near, remote) = UnixStream::pair().unwrap();
        near.write_all(b"one\ntwo").unwrap();
        drop(near);
        let mut lines = BlockingLines::of_host(remote);
        assert!(matches!(lines.next(), LinePiece::Line(b"one\n")));
        assert!(matches!(lines.next(), LinePiece::Line(b"two\n")));
        assert!(matches!(lines.next(), LinePiece::End));
    }

    #[test]
    fn the_last_line_of_a_host_above_the_limit_is_ended_in_its_last_part() {
        let (mut near, remote) = UnixStream::pair().unwrap();
        near.write_all(b"0123456789").unwrap();
        drop(near);
        let mut lines = BlockingLines {
            limit: 4,
            ..BlockingLines::of_host(remote)
        };
        let mut parts = Vec::new();
        loop {
            match lines.next() {
                LinePiece::Part { bytes, is_last } => parts.push((bytes.to_vec(), is_last)),
                LinePiece::Line(line) => panic!("{line:?} is no part"),
                LinePiece::End => break,
            }
        }
        assert_eq!(parts, [(b"0123456789".to_vec(), false), (b"\n".to_vec(), true)]);
    }

    #[test]
    fn a_line_above_the_limit_passes_in_parts_and_the_next_one_whole() {
        let long = vec![b'x'; 100_000];
        let passed = passed(1000, &[b"short\n", &long, b"\nnext\n"]);
        assert_eq!(passed.len(), 3);
        assert_eq!(passed[0], (b"short\n".to_vec(), false));
        assert_eq!((passed[1].0.len(), passed[1].1), (100_001, true));
        assert_eq!(passed[2], (b"next\n".to_vec(), false));
    }

    #[test]
    fn a_descriptor_that_does_not_block_is_waited_for() {
        let (near, remote) = UnixStream::pair().unwrap();
        remote.set_nonblocking(true).unwrap();
        near.set_nonblocking(true).unwrap();
        let large = vec![b'y'; 1_000_000];
        let expected = large.len() + 1;
        let writing = thread::spawn(move || {
            let mut near = near;
            write_all(&mut near, &large).unwrap();
            write_all(&mut near, b"\n").unwrap();
        });
        let mut lines = BlockingLines::of_daemon(remote);
        let LinePiece::Line(line) = lines.next() else {
            panic!("a line");
        };
        assert_eq!(line.len(), expected);
        writing.join().unwrap();
    }

    #[test]
    fn a_line_that_was_read_already_is_not_waited_for() {
        let (mut near, remote) = UnixStream::pair().unwrap();
        near.write_all(b"one\ntwo\nhalf").unwrap();
        let mut lines = BlockingLines::of_daemon(remote);
        assert!(matches!(lines.next(), LinePiece::Line(b"one\n")));
        assert!(lines.wait_until(Instant::now()), "the second line is there");
        assert!(matches!(lines.next(), LinePiece::Line(b"two\n")));
        assert!(!lines.wait_until(Instant::now()), "the third has no end yet");
    }

    #[test]
    fn the_buffer_of_a_large_line_is_given_back_when_it_has_passed() {
        let (mut near, remote) = UnixStream::pair().unwrap();
        let mut lines = BlockingLines::of_daemon(remote);
        let large = [vec![b'z'; 1_000_000], b"\n".to_vec()].concat();
        let writing = thread::spawn(move || {
            near.write_all(&large).unwrap();
            near
        });
        assert!(matches!(lines.next(), LinePiece::Line(line) if line.len() == 1_000_001));
        writing.join().unwrap().write_all(b"small\n").unwrap();
        assert!(matches!(lines.next(), LinePiece::Line(b"small\n")));
        let kept = lines.buffer.capacity();
        assert!(kept <= KEPT_SIZE, "{kept}");
    }
}
