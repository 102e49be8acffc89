//! What the fuzzers run: each function takes any bytes, hands them to a reader of foreign input, and panics where the reader
//! breaks a promise or disagrees with a simpler reading of the same bytes.
//!
//! No part of the library: it exists in tests and under `--cfg fuzzing` alone. The programs around it are in `fuzz/`, and a
//! test replays their corpora on every run.

pub use crate::catalog::fuzz::stored_catalog;
#[cfg(feature = "config-file")]
pub use crate::config::file::fuzz::configuration;
pub use crate::transport::fuzz_lines::lines;
#[cfg(feature = "http")]
pub use crate::transport::http::client::fuzz::{challenge, events};
pub use crate::wire::fuzz::{envelope, object};

/// A stream, and the reads in which it arrives.
pub(crate) struct FuzzStream<'a> {
    /// A number to choose a limit by.
    pub(crate) choice: usize,
    pub(crate) whole: &'a [u8],
    sizes: &'a [u8],
}

impl<'a> FuzzStream<'a> {
    /// Takes the choice and the sizes of the reads from the start of the input.
    pub(crate) fn from_input(input: &'a [u8]) -> Option<Self> {
        let (&choice, input) = input.split_first()?;
        let (&reads, input) = input.split_first()?;
        let (sizes, whole) = input.split_at_checked(usize::from(reads % 8))?;
        Some(Self {
            choice: usize::from(choice),
            whole,
            sizes,
        })
    }

    /// The same stream in pieces of these sizes, over and over; in single bytes where none is given.
    pub(crate) fn pieces(&self) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        let mut rest = self.whole;
        for turn in 0.. {
            if rest.is_empty() {
                break;
            }
            let size = match self.sizes {
                [] => 1,
                sizes => usize::from(sizes[turn % sizes.len()]).max(1),
            };
            let (piece, behind) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use mainstay_testkit::replay_corpus as replay;

    #[test]
    fn the_envelope_of_every_message_in_the_corpus_is_what_serde_reads() {
        replay("envelope", super::envelope);
    }

    #[test]
    fn every_object_in_the_corpus_is_edited_as_serde_would() {
        replay("object", super::object);
    }

    #[test]
    fn every_stream_of_lines_in_the_corpus_is_the_same_however_it_is_cut() {
        replay("lines", super::lines);
    }

    #[test]
    fn every_stream_of_events_in_the_corpus_is_the_same_however_it_is_cut() {
        replay("events", super::events);
    }

    #[test]
    fn every_challenge_in_the_corpus_is_read_back_as_it_was_written() {
        replay("challenge", super::challenge);
    }

    #[test]
    fn no_configuration_in_the_corpus_panics_or_shows_a_secret() {
        replay("configuration", super::configuration);
    }

    #[test]
    fn every_stored_catalog_in_the_corpus_is_refused_or_read_back_as_it_was_written() {
        replay("stored_catalog", super::stored_catalog);
    }
}
