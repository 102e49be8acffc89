//! Lines, held against a plain split of the whole stream.

use super::split::{Piece, Splitter};
use crate::fuzzing::FuzzStream;

/// What came of a stream: its lines, what was skipped by its length, and what it ended with.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Line(Vec<u8>),
    Skipped(u64),
    Rest(Vec<u8>),
}

/// Splits a stream that arrives in pieces, and holds that they make no difference.
pub fn lines(input: &[u8]) {
    let Some(stream) = FuzzStream::from_input(input) else {
        return;
    };
    let limit = stream.choice;
    let expected = plainly(stream.whole, limit);
    assert_eq!(split(&[stream.whole], limit), expected, "in one read");
    assert_eq!(split(&stream.pieces(), limit), expected, "in pieces");
}

fn split(pieces: &[&[u8]], limit: usize) -> Vec<Found> {
    let mut splitter = Splitter::new(limit);
    let mut found = Vec::new();
    for piece in pieces {
        splitter.buffer().extend_from_slice(piece);
        while let Some(piece) = splitter.next() {
            found.push(match piece {
                Piece::Line(line) => Found::Line(line.to_vec()),
                Piece::Skipped(skipped) => Found::Skipped(skipped.length()),
                Piece::Empty => continue,
            });
        }
    }
    found.extend(splitter.rest().map(|rest| Found::Rest(rest.to_vec())));
    found
}

fn plainly(stream: &[u8], limit: usize) -> Vec<Found> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut found = Vec::new();
    let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let rest = lines.pop().unwrap_or_default();
    for whole in lines {
        let line = whole.strip_suffix(b"\r").unwrap_or(whole);
        if line.len() > limit {
            found.push(Found::Skipped(line.len() as u64));
        } else if !line.trim_ascii().is_empty() {
            found.push(Found::Line(line.to_vec()));
        }
    }
    let text = rest.strip_suffix(b"\r").unwrap_or(rest);
    if text.len() <= limit && !rest.trim_ascii().is_empty() {
        found.push(Found::Rest(rest.to_vec()));
    }
    found
}
