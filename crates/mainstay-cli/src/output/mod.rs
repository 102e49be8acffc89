//! What a person sees: results on stdout, everything else on stderr, colours and redrawing only on a terminal.
//!
//! Nothing here fails because nobody reads: a closed stderr is ignored, and a closed stdout (`| head`) ends quietly.

mod live;
mod paint;
mod table;
mod text;

use std::io::{self, ErrorKind, Write};

pub(crate) use live::Live;
pub(crate) use paint::{Ink, Paint};
pub(crate) use table::{Cell, table};
pub(crate) use text::{
    count, cut, fine_span, first_line, labelled, plain, prose, readable, span, width, wrapped,
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

    /// Prints a result. A reader that has left wants no more of it; that is not an error.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(
                anyhow::Error::new(error).context("cannot write to stdout"),
            )),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Says what is going on.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.say(&self.err.dim(text));
        }
    }

    /// Says what is worth a look.
    pub(crate) fn warning(&self, text: &str) {
        self.say(&format!("{} {text}", self.err.ink(Ink::Yellow, "warning:")));
    }

    /// Says what is wrong.
    pub(crate) fn error(&self, text: &str) {
        self.say(&format!("{} {text}", self.err.ink(Ink::Red, "error:")));
    }

    /// Adds a line to what was said.
    pub(crate) fn say(&self, line: &str) {
        // Nowhere is left to complain about a closed stderr.
        let _ = writeln!(io::stderr().lock(), "{line}");
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

fn columns() -> usize {
    let asked =
        rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    match asked {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        Ok(_) | Err(_) => DEFAULT_WIDTH,
    }
}
