//! A recording as a file of JSON lines: a header with a version, the messages, the losses, and an end line. A file without its
//! end line was cut off.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use mainstay_control::api::{LossRecord, MessageRecord, RecordingDocument};
use serde::{Deserialize, Serialize};

use crate::exit::CommandFailure;
use crate::output::Text;

/// The version of the format.
const FORMAT_VERSION: u64 = 1;

/// The largest file that is read: far above what a recorder keeps.
const FILE_LIMIT: u64 = 1024 * 1024 * 1024;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordingHeader {
    r#type: String,
    version: u64,
    /// The program that wrote it.
    program: String,
    pub(crate) server: String,
    at_ms: u64,
    pub(crate) has_payloads: bool,
    pub(crate) dropped: u64,
}

#[derive(Serialize, Deserialize)]
struct MessageLine<T> {
    r#type: String,
    message: T,
}

#[derive(Serialize, Deserialize)]
struct LossLine<T> {
    r#type: String,
    loss: T,
}

#[derive(Serialize, Deserialize)]
struct EndLine {
    r#type: String,
    messages: usize,
}

/// What every line has.
#[derive(Deserialize)]
struct AnyLine {
    r#type: Option<String>,
    version: Option<u64>,
}

const HEADER: &str = "mainstay-recording";
const MESSAGE: &str = "message";
const LOSS: &str = "loss";
const END: &str = "end";

/// The lines of a file.
pub(crate) fn written(recording: &RecordingDocument) -> Text {
    let mut lines = Text::default();
    lines.push_line(Text::object(&RecordingHeader {
        r#type: HEADER.to_owned(),
        version: FORMAT_VERSION,
        program: concat!("mainstay ", env!("CARGO_PKG_VERSION")).to_owned(),
        server: recording.server.clone(),
        at_ms: recording.at_ms,
        has_payloads: recording.has_payloads,
        dropped: recording.dropped,
    }));
    for message in &recording.messages {
        lines.push_line(Text::object(&MessageLine::<&MessageRecord> {
            r#type: MESSAGE.to_owned(),
            message,
        }));
    }
    for loss in &recording.losses {
        lines.push_line(Text::object(&LossLine::<&LossRecord> {
            r#type: LOSS.to_owned(),
            loss,
        }));
    }
    lines.push_line(Text::object(&EndLine {
        r#type: END.to_owned(),
        messages: recording.messages.len(),
    }));
    lines
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct RecordingFile {
    pub(crate) header: RecordingHeader,
    /// The messages, each with the number of its line.
    pub(crate) messages: Vec<(usize, MessageRecord)>,
    /// Whether the file ends before its end line.
    pub(crate) is_cut_off: bool,
}

impl RecordingFile {
    pub(crate) fn read(path: &Path) -> Result<Self, CommandFailure> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot read {shown}"));
        let file = file.map_err(CommandFailure::usage)?;
        let mut lines = BufReader::new(file.take(FILE_LIMIT)).split(b'\n').zip(1..);
        let first = match lines.next() {
            Some((Ok(line), _)) => line,
            Some((Err(error), _)) => {
                let error = anyhow::Error::new(error).context(format!("cannot read {shown}"));
                return Err(CommandFailure::usage(error));
            }
            None => return Err(CommandFailure::usage(anyhow!("{shown} is empty"))),
        };
        let header = header(&first).map_err(|why| CommandFailure::usage(anyhow!("{shown} {why}")))?;
        let mut read = Self {
            header,
            messages: Vec::new(),
            is_cut_off: true,
        };
        while let Some((line, number)) = lines.next() {
            let line = line.with_context(|| format!("cannot read {shown}"));
            let line = line.map_err(CommandFailure::usage)?;
            if !read.is_cut_off {
                let error = anyhow!("{shown}:{number}: there is more behind the end of the recording");
                return Err(CommandFailure::usage(error));
            }
            match read.take(&line, number) {
                Ok(()) => {}
                // A part of a line can only be the last one.
                Err(TakeError::NotRead(_)) if lines.next().is_none() => break,
                Err(TakeError::NotRead(error)) => {
                    let error = anyhow::Error::new(error).context(format!("{shown}:{number}"));
                    return Err(CommandFailure::usage(error));
                }
                Err(TakeError::Missing { written, found }) => {
                    return Err(CommandFailure::usage(anyhow!(
                        "{shown}: lines are missing: {written} messages were written, and {found} are here"
                    )));
                }
            }
        }
        Ok(read)
    }

    fn take(&mut self, line: &[u8], number: usize) -> Result<(), TakeError> {
        let kind = serde_json::from_slice::<AnyLine>(line)?
            .r#type
            .unwrap_or_default();
        match kind.as_str() {
            MESSAGE => {
                let line: MessageLine<MessageRecord> = serde_json::from_slice(line)?;
                self.messages.push((number, line.message));
            }
            END => {
                let end: EndLine = serde_json::from_slice(line)?;
                let found = self.messages.len();
                if end.messages != found {
                    let written = end.messages;
                    return Err(TakeError::Missing { written, found });
                }
                self.is_cut_off = false;
            }
            // The losses are for a person to read, and a later version may have more kinds of lines.
            _other => {}
        }
        Ok(())
    }
}

/// Why a line is not taken.
enum TakeError {
    /// It is no line of a recording, or only a part of one.
    NotRead(serde_json::Error),
    /// It is the end, and there are fewer or more messages than were written.
    Missing { written: usize, found: usize },
}

impl From<serde_json::Error> for TakeError {
    fn from(error: serde_json::Error) -> Self {
        Self::NotRead(error)
    }
}

/// The header, or what is wrong with the file.
fn header(line: &[u8]) -> Result<RecordingHeader, String> {
    let any: AnyLine = serde_json::from_slice(line).map_err(|_| NO_RECORDING.to_owned())?;
    if any.r#type.as_deref() != Some(HEADER) {
        return Err(NO_RECORDING.to_owned());
    }
    match any.version {
        Some(FORMAT_VERSION) => {}
        other => {
            let version = other.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(format!(
                "was written by another version: its format is {version}, and this program reads {FORMAT_VERSION}"
            ));
        }
    }
    serde_json::from_slice(line).map_err(|error| format!("has a header that cannot be read: {error}"))
}

const NO_RECORDING: &str = "is no recording: `mainstay record SERVER > FILE` writes one";

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn recording() -> RecordingDocument {
        let message = serde_json::json!({
            "at_us": 1, "generation": 1, "direction": "to_server", "kind": "request", "method": "tools/call", "name": "echo",
            "id": "3", "error_code": null, "bytes": 9, "count": 1, "payload": {"id": 3, "\u{202e}": 1.0}, "text": null,
        });
        let document = serde_json::json!({
            "server": "s", "at_ms": 1, "has_payloads": true, "dropped": 0, "messages": [message, message],
            "losses": [{"at_ms": 1, "generation": 1, "reason": "gone", "messages": [message]}],
        });
        serde_json::from_str(&document.to_string()).expect("the form of the API")
    }

    fn read(text: &str) -> Result<RecordingFile, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        RecordingFile::read(file.path()).map_err(|failure| format!("{:#}", failure.error))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let (recording, text) = (recording(), written(&recording()));
        assert!(!text.as_str().contains('\u{202e}'), "safe for a terminal");
        let file = read(text.as_str()).expect("readable");
        assert!(!file.is_cut_off);
        let messages: Vec<_> = file.messages.iter().map(|(_, message)| message.clone()).collect();
        let payload = |message: &MessageRecord| -> serde_json::Value {
            let payload = message.payload.as_ref().expect("it has one");
            payload.parse().expect("JSON")
        };
        assert_eq!(
            messages.iter().map(payload).collect::<Vec<_>>(),
            recording.messages.iter().map(payload).collect::<Vec<_>>()
        );
        assert_eq!(file.messages[0].0, 2, "the number of its line");
    }

    #[test]
    fn a_file_that_was_cut_off_anywhere_is_seen_to_be() {
        let text = written(&recording());
        let whole = text.as_str();
        let first_line = whole.find('\n').expect("lines") + 1;
        for at in first_line..whole.len() - 1 {
            if !whole.is_char_boundary(at) {
                continue;
            }
            let file = read(&whole[..at]).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert!(file.is_cut_off, "{at}");
        }
        assert!(!read(whole).expect("readable").is_cut_off);
    }

    #[test]
    fn files_that_are_no_recordings_say_what_they_are() {
        let text = written(&recording());
        let other = text.as_str().replacen("\"version\":1", "\"version\":7", 1);
        let lines: Vec<&str> = text.as_str().lines().collect();
        let missing = [lines[0], lines[1], lines[3], lines[4]].join("\n");
        let broken = [lines[0], "{\"type\":\"message\",\"message\":3}", lines[4]].join("\n");
        let behind = format!("{}{}", text.as_str(), lines[1]);
        for (text, wanted) in [
            ("", "is empty"),
            ("{\"mcpServers\":{}}\n", "is no recording"),
            ("\u{0}\u{1}", "is no recording"),
            (other.as_str(), "its format is 7"),
            (missing.as_str(), "lines are missing"),
            (broken.as_str(), ":2: "),
            (behind.as_str(), "behind the end"),
        ] {
            let error = read(text).expect_err(wanted);
            assert!(error.contains(wanted), "{wanted:?} is not in {error:?}");
        }
    }
}
