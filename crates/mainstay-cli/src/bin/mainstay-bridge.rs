//! The bridge of `mainstay connect`, started by that command alone. It has nothing of the other commands in it, and so stays small.

use std::process::ExitCode;

use mainstay_bridge::handover;

fn main() -> ExitCode {
    match handover::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The daemon's words may repeat a text of a file.
            let is_shown = |letter: &char| *letter == '\n' || !letter.is_control();
            let said: String = error.to_string().chars().filter(is_shown).collect();
            eprintln!("error: {said}");
            ExitCode::FAILURE
        }
    }
}
