//! What a person sees: results on stdout, everything else on stderr, colours and redrawing only on a terminal.
//!
//! The screen takes [`Text`] alone, which is made of the program's own words and of cleaned text: nothing that a server
//! says drives a terminal. Nothing here fails because nobody reads: a closed stderr is ignored, and a closed stdout
//! (`| head`) ends quietly.

mod live;
mod paint;
mod table;
mod text;

use std::io::{self, ErrorKind, IsTerminal as _, Write};

pub(crate) use live::Live;
pub(crate) use paint::{Ink, Paint};
pub(crate) use table::{Cell, table};
pub(crate) use text::{
    Text, count, cut, fine_span, first_line, harmless, labelled, plain, prose, span, text, width, wrapped,
};

use crate::exit::Failure;

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
}

impl Screen {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            out: Paint::for_stream(&io::stdout()),
            err: Paint::for_stream(&io::stderr()),
            width: columns().clamp(MIN_WIDTH, MAX_WIDTH),
            quiet,
        }
    }

    /// Prints a result.
    pub(crate) fn print(&self, text: impl Into<Text>) -> Result<(), Failure> {
        write(text.into().as_str().as_bytes())
    }

    /// Prints what a server sent: a terminal is shown it cleaned, a file or a pipe gets every byte.
    pub(crate) fn print_payload(&self, payload: &str) -> Result<(), Failure> {
        if io::stdout().is_terminal() {
            self.print(Text::lines(payload))
        } else {
            write(payload.as_bytes())
        }
    }

    /// Says what is going on.
    pub(crate) fn note(&self, text: impl Into<Text>) {
        if !self.quiet {
            self.say(self.err.dim(text));
        }
    }

    /// Says what is worth a look.
    pub(crate) fn warning(&self, text: impl Into<Text>) {
        let word = self.err.ink(Ink::Yellow, "warning:");
        self.say(text!("{} {}", word, text.into()));
    }

    /// Says what is wrong.
    pub(crate) fn error(&self, text: impl Into<Text>) {
        let word = self.err.ink(Ink::Red, "error:");
        self.say(text!("{} {}", word, text.into()));
    }

    /// Adds a line to what was said.
    pub(crate) fn say(&self, line: impl Into<Text>) {
        // Nowhere is left to complain about a closed stderr.
        let _ = writeln!(io::stderr().lock(), "{}", line.into());
    }

    /// Whether progress is shown at all.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet
    }

    /// Whether progress can be redrawn in place.
    pub(crate) fn is_live(&self) -> bool {
        self.shows_progress() && paint::obeys(&io::stderr()) && !crate::log::wanted()
    }
}

/// A reader that has left wants no more of it; that is not an error.
fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(
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
