//! A few lines at the bottom of a terminal that are redrawn in place.

use std::io::{self, Write as _};

use super::text::Text;

/// Cuts long lines instead of wrapping them, so that a line drawn is a line to go back; and the way back to normal.
const NO_WRAP: &str = "\u{1b}[?7l";
const WRAP: &str = "\u{1b}[?7h";
/// From the cursor to the end of the screen.
const CLEAR_BELOW: &str = "\u{1b}[J";

/// Lines on stderr that are redrawn in place, and cleared at the end, however that comes.
#[derive(Debug, Default)]
pub(crate) struct Live {
    drawn: usize,
}

impl Live {
    /// Puts these lines in the place of the last ones.
    pub(crate) fn draw(&mut self, lines: &[Text]) {
        let lines = &lines[..lines.len().min(height())];
        let mut frame = self.back();
        frame.push_str(NO_WRAP);
        for line in lines {
            frame.push_str(line.as_str());
            frame.push('\n');
        }
        frame.push_str(WRAP);
        self.drawn = lines.len();
        write(&frame);
    }

    fn back(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\r{CLEAR_BELOW}"),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        write(&self.back());
    }
}

/// How many lines fit. The cursor cannot go back to what has left the screen.
fn height() -> usize {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_row > 1 => usize::from(size.ws_row) - 1,
        Ok(_) | Err(_) => usize::MAX,
    }
}

/// One write for each frame, so that no half of one is seen.
fn write(frame: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(frame.as_bytes()).and_then(|()| stderr.flush());
}
