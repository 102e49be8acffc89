//! What a wrapped server writes to stderr, passed on to the program's own stderr: that is where hosts keep a server's log.
//!
//! It passes as it is, or cleaned, line by line, where a person reads it on a terminal. A host that does not read holds up a
//! thread of its own here and nothing else: what it does not read in time is dropped, and a line says so.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use mainstay::Server;
use mainstay::process::{Followed, StderrFollower, StderrLine};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long the end of the program waits for what the server wrote last: enough for a host that reads.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(200);

/// Passes a server's stderr on, as long as this lives.
pub(crate) struct Passing {
    /// Dropped when the server has ended: what waits is still passed on, and nothing after it.
    end: oneshot::Sender<()>,
    /// Signalled when all of it is written.
    written: oneshot::Receiver<()>,
}

impl Passing {
    /// Starts with what the server writes from now on. `None` where the program has no stderr, or no thread is to be had: a
    /// server works without.
    pub(crate) fn start(server: &Server, prefixed: bool) -> Option<Self> {
        // A descriptor of its own, without the lock of the standard one: a write that blocks must hold up no message of the
        // program itself.
        let mut stderr = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
        let (pieces, mut received) = mpsc::channel::<Vec<u8>>(1);
        let (done, written) = oneshot::channel();
        let writing = move || {
            while let Some(piece) = received.blocking_recv() {
                if stderr.write_all(&piece).is_err() {
                    break;
                }
            }
            let _ = done.send(());
        };
        let thread = std::thread::Builder::new().name("server-stderr".to_owned());
        thread.spawn(writing).ok()?;
        let mut source = StderrSource::of(server, prefixed);
        let (end, mut ended) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let mut is_ended = false;
            loop {
                let piece = tokio::select! {
                    biased;
                    piece = source.next() => piece,
                    _ = &mut ended, if !is_ended => {
                        is_ended = true;
                        continue;
                    }
                    () = std::future::ready(()), if is_ended => return,
                };
                let Some(piece) = piece else { return };
                if pieces.send(piece).await.is_err() {
                    return;
                }
            }
        });
        Some(Self { end, written })
    }

    /// Waits until what the server wrote is passed on, if the host reads it.
    pub(crate) async fn finish(self) {
        drop(self.end);
        let _ = timeout(LAST_WORDS_TIMEOUT, self.written).await;
    }
}

/// Where it comes from, and how it is written.
enum StderrSource {
    AsItIs {
        bytes: StderrFollower<bytes::Bytes>,
        prefix: Prefix,
    },
    Cleaned {
        lines: StderrFollower<StderrLine>,
        prefix: String,
    },
}

impl StderrSource {
    fn of(server: &Server, prefixed: bool) -> Self {
        let prefix = if prefixed {
            format!("{}: ", server.name())
        } else {
            String::new()
        };
        if io::stderr().is_terminal() {
            Self::Cleaned {
                lines: server.follow_stderr_lines(),
                prefix,
            }
        } else {
            Self::AsItIs {
                bytes: server.follow_stderr(),
                prefix: Prefix::new(prefix),
            }
        }
    }

    /// The next piece to write.
    ///
    /// Cancel safety: dropping it loses nothing.
    async fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::AsItIs { bytes, prefix } => Some(match bytes.next().await? {
                Followed::Wrote(piece) => prefix.put(&piece),
                Followed::Missed(pieces) => missed(pieces),
            }),
            Self::Cleaned { lines, prefix } => Some(match lines.next().await? {
                Followed::Wrote(line) => format!("{prefix}{}\n", line.text).into_bytes(),
                Followed::Missed(pieces) => missed(pieces),
            }),
        }
    }
}

fn missed(pieces: u64) -> Vec<u8> {
    format!("\nmainstay: dropped {pieces} pieces of the server's stderr, which were not read in time\n")
        .into_bytes()
}

/// Puts a prefix before each line of what comes in pieces.
struct Prefix {
    text: String,
    is_within_line: bool,
}

impl Prefix {
    fn new(text: String) -> Self {
        Self {
            text,
            is_within_line: false,
        }
    }

    fn put(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.text.is_empty() {
            return piece.to_vec();
        }
        let mut prefixed = Vec::with_capacity(piece.len() + self.text.len());
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if !self.is_within_line {
                prefixed.extend_from_slice(self.text.as_bytes());
            }
            prefixed.extend_from_slice(part);
            self.is_within_line = !part.ends_with(b"\n");
        }
        prefixed
    }
}

#[cfg(test)]
mod tests {
    use super::Prefix;

    #[test]
    fn each_line_has_its_prefix_once_however_it_is_cut_into_pieces() {
        let mut prefix = Prefix::new("files: ".to_owned());
        let pieces: [&[u8]; 4] = [b"one\ntw", b"o\n", b"\xff\n\n", b"end"];
        let written = pieces.map(|piece| prefix.put(piece)).concat();
        assert_eq!(
            written,
            b"files: one\nfiles: two\nfiles: \xff\nfiles: \nfiles: end"
        );
    }
}
