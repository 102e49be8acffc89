//! What the fuzzers run: each function takes any bytes, lets them in at a door as a client would, and panics where the gateway
//! breaks a promise.
//!
//! No part of the gateway: it exists in tests and under `--cfg fuzzing` alone. The programs around it are in `fuzz/`, and a
//! test replays their corpora on every run.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mainstay::Fleet;
use mainstay::gateway::message::Message;
use tokio::io::AsyncReadExt as _;
use tokio::runtime;
use tokio::time::timeout;

pub use crate::door::fuzz_http::{guard, http};
pub use crate::router::fuzz_state::request_state;
use crate::{Gateway, Scope};

/// More than any wait of the gateway, in paused time.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Room for all that a client is answered, so that it never has to read meanwhile.
const ANSWERS: usize = 16 * 1024 * 1024;

/// Writes lines to the gateway as a client on stdin does, and holds that each request is answered once.
pub fn messages(input: &[u8]) {
    let input = input.to_vec();
    let asked = requests(&input);
    let may_be_cancelled = contains(&input, b"cancelled");
    let answers = in_paused_time(async move {
        let gateway = Gateway::start(Fleet::builder(), []);
        let (output, mut answers) = tokio::io::duplex(ANSWERS);
        gateway.serve_stdio(Scope::Union, &input[..], output).await;
        let mut read = Vec::new();
        answers.read_to_end(&mut read).await.expect("memory can be read");
        read
    });
    let mut answered = BTreeMap::<Bytes, usize>::new();
    for line in answers
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let line = Bytes::copy_from_slice(line);
        match Message::read(&line) {
            Message::Response { id, .. } => *answered.entry(id.into()).or_default() += 1,
            Message::Request { .. } | Message::Notification { .. } | Message::Batch(_) => {}
            Message::Garbage(what) => panic!("the gateway writes what is no message: {what}: {line:?}"),
        }
    }
    for (id, times) in asked.iter().filter(|(_, times)| **times == 1) {
        let answers = answered.get(id).copied().unwrap_or_default();
        assert!(
            answers == *times || (may_be_cancelled && answers == 0),
            "the request {id:?} is answered {answers} times"
        );
    }
}

/// How often each id asks for something that ends. An id that is also in a batch may be answered there.
fn requests(input: &[u8]) -> BTreeMap<Bytes, usize> {
    let mut asked = BTreeMap::<Bytes, usize>::new();
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    for line in input.split(|byte| *byte == b'\n') {
        match Message::read(&Bytes::copy_from_slice(line)) {
            Message::Request { id, method, .. } => {
                let times = if method == "subscriptions/listen" { 2 } else { 1 };
                *asked.entry(id.into()).or_default() += times;
            }
            Message::Batch(messages) => {
                for message in messages {
                    if let Message::Request { id, .. } = Message::read(&message) {
                        *asked.entry(id.into()).or_default() += 2;
                    }
                }
            }
            Message::Notification { .. } | Message::Response { .. } | Message::Garbage(_) => {}
        }
    }
    asked
}

fn contains(input: &[u8], word: &[u8]) -> bool {
    // A method may be spelt with escapes.
    input
        .windows(word.len())
        .any(|window| window == word || window.starts_with(b"\\u"))
}

/// Runs what a client does, which must end.
pub(crate) fn in_paused_time<T>(visit: impl Future<Output = T>) -> T {
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs only memory");
    runtime
        .block_on(async { timeout(PATIENCE, visit).await })
        .expect("the visit ends")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Runs a target with every file of its corpus. The file at work is shown where it fails.
    fn replay(name: &str, target: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/corpus")
            .join(name);
        let files = fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
        let mut replayed = 0;
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            target(&fs::read(&path).unwrap());
            replayed += 1;
        }
        assert!(replayed > 0, "{} is empty", corpus.display());
    }

    #[test]
    fn every_request_on_stdin_in_the_corpus_is_answered_once() {
        replay("messages", super::messages);
    }

    #[test]
    fn every_connection_in_the_corpus_is_answered_and_ends() {
        replay("http", super::http);
    }

    #[test]
    fn no_request_state_in_the_corpus_is_opened_but_as_it_was_sealed() {
        replay("request_state", super::request_state);
    }

    #[test]
    fn no_host_or_origin_in_the_corpus_passes_for_this_machine() {
        replay("guard", super::guard);
    }
}
