//! What a person sees: results on stdout, everything else on stderr, colours and redrawing only on a terminal.
//!
//! The screen takes [`Text`] alone, which is made of the program's own words and of cleaned text: nothing that a server
//! says drives a terminal. Nothing here fails for want of a reader: a closed stderr is ignored, and a closed stdout
//! (`| head`) ends quietly.

mod live;
mod paint;
mod table;
mod text;

use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::time::SystemTime;

use clap::ValueEnum;
use serde::Serialize;

pub(crate) use live::Live;
pub(crate) use paint::{Ink, Paint};
pub(crate) use table::{Cell, table, table_within};
pub(crate) use text::{
    Text, count, counted_up, cut, failures, fine_span, first_line, harmless, labelled, plain, prose, span,
    text, width, wrapped,
};

use crate::exit::CommandFailure;
use crate::log;

/// How wide the text is where no terminal says so.
const DEFAULT_WIDTH: usize = 100;
/// Narrower than this, nothing can be laid out; the terminal may wrap as it likes.
const MIN_WIDTH: usize = 40;
/// Lines longer than this are no longer read with ease.
const MAX_WIDTH: usize = 120;

/// Where the program writes, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// For stdout.
    pub(crate) out: Paint,
    /// For stderr.
    pub(crate) err: Paint,
    /// How wide a line on stdout may be.
    pub(crate) width: usize,
    quiet: bool,
    format: LogFormat,
}

/// How a line on stderr is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For a person
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

impl Screen {
    pub(crate) fn new(quiet: bool, format: LogFormat) -> Self {
        Self {
            out: Paint::for_stream(&io::stdout()),
            err: match format {
                LogFormat::Text => Paint::for_stream(&io::stderr()),
                LogFormat::Json => Paint::PLAIN,
            },
            width: columns().clamp(MIN_WIDTH, MAX_WIDTH),
            quiet,
            format,
        }
    }

    /// Prints a result.
    pub(crate) fn print(&self, text: impl Into<Text>) -> Result<(), CommandFailure> {
        write(text.into().as_str().as_bytes())
    }

    /// Prints what a server sent: a terminal is shown it cleaned, a file or a pipe gets every byte.
    pub(crate) fn print_payload(&self, payload: &str) -> Result<(), CommandFailure> {
        if self.is_terminal() {
            self.print(Text::lines(payload))
        } else {
            write(payload.as_bytes())
        }
    }

    /// Says what is going on.
    pub(crate) fn note(&self, text: impl Into<Text>) {
        if !self.quiet {
            self.write(Weight::Info, &text.into());
        }
    }

    /// Says what is worth a look.
    pub(crate) fn warning(&self, text: impl Into<Text>) {
        self.write(Weight::Warning, &text.into());
    }

    /// Says what is wrong.
    pub(crate) fn error(&self, text: impl Into<Text>) {
        self.write(Weight::Error, &text.into());
    }

    /// Adds a line to what is wrong.
    pub(crate) fn say(&self, text: impl Into<Text>) {
        self.write(Weight::Beside, &text.into());
    }

    /// Writes a line to stderr that is in its form already: behind those of the log, where there is one.
    pub(crate) fn line(&self, line: impl Into<Text>) {
        if let Some(line) = log::queue(line.into()) {
            write_line(&line);
        }
    }

    fn write(&self, weight: Weight, text: &Text) {
        let (level, line) = match weight {
            Weight::Info => ("info", self.err.dim(text)),
            Weight::Warning => {
                let word = self.err.ink(Ink::Yellow, "warning:");
                ("warn", text!("{} {}", word, text))
            }
            Weight::Error => {
                let word = self.err.ink(Ink::Red, "error:");
                ("error", text!("{} {}", word, text))
            }
            Weight::Beside => ("error", text.clone()),
        };
        match self.format {
            LogFormat::Text => self.line(line),
            LogFormat::Json => self.line(Text::object(&Said {
                time: log::stamp(SystemTime::now()).as_str(),
                level,
                target: "mainstay",
                message: text.as_str().trim(),
            })),
        }
    }

    /// Whether lines on stderr are JSON objects.
    pub(crate) fn writes_json(&self) -> bool {
        self.format == LogFormat::Json
    }

    /// Whether results are read by a person at a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether progress is shown at all.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet
    }

    /// Whether progress can be redrawn in place.
    pub(crate) fn is_live(&self) -> bool {
        self.shows_progress() && !self.writes_json() && paint::obeys(&io::stderr()) && !log::wanted()
    }
}

/// Writes a line to stderr now. Blocks while the reader does not read.
pub(crate) fn write_line(line: &Text) {
    // Nowhere is left to complain about a closed stderr.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// How much a line on stderr matters.
#[derive(Clone, Copy)]
enum Weight {
    Info,
    Warning,
    Error,
    /// As much as the line before it.
    Beside,
}

/// What the program itself says, as an object.
#[derive(Serialize)]
struct Said<'a> {
    time: &'a str,
    level: &'static str,
    target: &'static str,
    message: &'a str,
}

/// A reader that has left wants no more of it; that is not an error.
fn write(bytes: &[u8]) -> Result<(), CommandFailure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CommandFailure::failed(
            anyhow::Error::new(error).context("cannot write to stdout"),
        )),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn columns() -> usize {
    let asked =
        rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    match asked {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        Ok(_) | Err(_) => DEFAULT_WIDTH,
    }
}
