//! What a server writes to its output that is no message: text that belongs on stderr.
//!
//! The log says so, at most once a minute, and in the error of whatever may have failed because of it.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::Generation;
use tokio::time::Instant;

use crate::PlainText;
use crate::lock::Lock;

/// How often the log says that a server writes such text.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// How often a new example is taken, so that a flood of text costs little.
const EXAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How much of a line is shown.
const EXAMPLE_CHARS: usize = 120;

/// The bytes that hold as many characters, and their terminal sequences.
const EXAMPLE_BYTES: usize = 1024;

/// The last such text of one server.
#[derive(Default)]
pub(crate) struct StdoutNoise(Lock<Option<NoiseRecord>>);

struct NoiseRecord {
    generation: Generation,
    at: Instant,
    example: Arc<str>,
    example_at: Instant,
    warned_at: Instant,
    /// Lines since the last warning.
    unreported: u64,
}

/// What the log says of such text.
#[derive(Debug, PartialEq, Eq)]
struct Warning {
    /// Lines since the last warning.
    lines: u64,
    example: Arc<str>,
}

impl StdoutNoise {
    /// Notes a line, and warns of it if that is due.
    pub(crate) fn report(&self, server: &str, generation: Generation, line: &[u8]) {
        if let Some(Warning { lines, example }) = self.note(generation, line) {
            tracing::warn!(
                server, %generation, lines, %example,
                "the server writes text to stdout that is no JSON-RPC message, and must write that to stderr"
            );
        }
    }

    fn note(&self, generation: Generation, line: &[u8]) -> Option<Warning> {
        let now = Instant::now();
        let mut kept = self.0.lock();
        match &mut *kept {
            Some(record) => {
                record.at = now;
                record.unreported += 1;
                if record.generation != generation || now >= record.example_at + EXAMPLE_INTERVAL {
                    record.generation = generation;
                    record.example = example(line);
                    record.example_at = now;
                }
                let is_due = now >= record.warned_at + WARNING_INTERVAL;
                is_due.then(|| {
                    record.warned_at = now;
                    Warning {
                        lines: std::mem::take(&mut record.unreported),
                        example: record.example.clone(),
                    }
                })
            }
            None => {
                let example = example(line);
                *kept = Some(NoiseRecord {
                    generation,
                    at: now,
                    example: example.clone(),
                    example_at: now,
                    warned_at: now,
                    unreported: 0,
                });
                Some(Warning { lines: 1, example })
            }
        }
    }

    /// An example of what this generation wrote, if it wrote anything since then.
    pub(crate) fn since(&self, generation: Generation, since: Instant) -> Option<Arc<str>> {
        self.example_if(|record| record.generation == generation && record.at >= since)
    }

    /// An example of what this generation wrote, whenever that was.
    pub(crate) fn of(&self, generation: Generation) -> Option<Arc<str>> {
        self.example_if(|record| record.generation == generation)
    }

    fn example_if(&self, is_wanted: impl FnOnce(&NoiseRecord) -> bool) -> Option<Arc<str>> {
        let kept = self.0.lock();
        let record = kept.as_ref().filter(|record| is_wanted(record))?;
        Some(record.example.clone())
    }
}

/// Says that a server writes such text, for the end of an error.
pub(crate) fn say(noise: Option<&str>) -> String {
    noise.map_or_else(String::new, |example| {
        format!(
            "; it writes text to stdout that is no JSON-RPC message (\"{example}\"), and must write that to stderr"
        )
    })
}

fn example(line: &[u8]) -> Arc<str> {
    let text = String::from_utf8_lossy(&line[..line.len().min(EXAMPLE_BYTES)]);
    let text = PlainText::line(text.trim()).cut(EXAMPLE_CHARS);
    text.as_str().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_warned_of_at_once_and_then_once_a_minute_with_its_lines() {
        let noise = StdoutNoise::default();
        let warning = |lines, example: &str| {
            let example = example.into();
            Some(Warning { lines, example })
        };
        assert_eq!(noise.note(Generation(1), b"first"), warning(1, "first"));
        for _ in 0..1000 {
            assert_eq!(noise.note(Generation(1), b"more"), None);
        }
        tokio::time::advance(WARNING_INTERVAL).await;
        assert_eq!(noise.note(Generation(1), b"last"), warning(1001, "last"));
        assert_eq!(noise.note(Generation(1), b"again"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_example_is_clean_short_and_of_its_generation_and_time() {
        let noise = StdoutNoise::default();
        let begin = Instant::now();
        assert_eq!(noise.since(Generation(1), begin), None);
        noise.report(
            "s",
            Generation(1),
            "\u{1b}[31mloading\u{1b}[0m \u{202e}…\n".as_bytes(),
        );
        assert_eq!(noise.since(Generation(1), begin).as_deref(), Some("loading …"));
        assert_eq!(noise.since(Generation(2), begin), None);

        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(noise.since(Generation(1), Instant::now()), None, "it is older");
        assert_eq!(noise.of(Generation(1)).as_deref(), Some("loading …"));
        noise.report("s", Generation(2), &[b'x'; 5000]);
        let long = noise.since(Generation(2), Instant::now()).expect("it is new");
        assert_eq!(long.chars().count(), EXAMPLE_CHARS);
        assert_eq!(noise.since(Generation(1), begin), None);
    }
}
