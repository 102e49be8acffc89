//! The terminal: prepared for the view, and restored when the view is dropped, when the program panics, and before a signal
//! ends it.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::Once;
use std::thread;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use tokio::sync::mpsc;

use super::TopInput;

/// The terminal while the view has it.
pub(super) struct TopTerminal(Terminal<CrosstermBackend<Stdout>>);

impl TopTerminal {
    pub(super) fn open() -> io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        // From here on it is restored if something fails.
        // Not `Terminal::clear`, which asks the terminal where its cursor is: some do not answer.
        let entered = execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        entered.map(Self).inspect_err(|_| restore())
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for TopTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Nothing can be done about a terminal that is gone.
fn restore() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// A panic's message would be lost on the alternate screen.
fn restore_on_panic() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}

/// Sends keys and changes of the size. The thread waits for the next one and ends with the program.
pub(super) fn send_keys(sender: mpsc::Sender<TopInput>) {
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(TopInput::Terminal(event)).is_err() {
                return;
            }
        }
    });
}
