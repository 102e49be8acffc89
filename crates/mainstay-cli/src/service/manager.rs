//! Runs the commands of the service manager, each within a deadline.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::exit::{CommandFailure, Exit};
use crate::output::{Screen, Text, plain, text};

/// How long a command may take. To stop the service takes as long as its servers do, 30 s at most.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of what a command says is kept.
const OUTPUT_LIMIT: u64 = 16 * 1024;

/// What became of a command.
struct CommandResult {
    succeeded: bool,
    said: String,
}

/// Runs the commands until one fails. Says what failed, and what to run by hand.
pub(super) fn run_all(commands: &[Vec<String>], screen: &Screen) -> Result<Exit, CommandFailure> {
    for (n, command) in commands.iter().enumerate() {
        let result = run(command);
        if result.succeeded {
            continue;
        }
        screen.warning(text!(
            "`{}` failed: {}",
            plain(&command.join(" ")),
            plain(&result.said)
        ));
        let rest = commands[n..].iter().map(|command| plain(&command.join(" ")));
        screen.say(text!(
            "run it in a session of this user: {}",
            Text::join(rest, " && ")
        ));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Success)
}

/// What a command prints.
pub(super) fn output(command: &[String]) -> String {
    run(command).said
}

fn run(command: &[String]) -> CommandResult {
    let failed = |said: String| CommandResult {
        succeeded: false,
        said,
    };
    let Some((program, arguments)) = command.split_first() else {
        return failed("there is nothing to run".to_owned());
    };
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return failed(format!("{program} cannot be run: {error}")),
    };
    let (sender, ended) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::spawn(move || {
        let mut said = String::new();
        // Both are short, and far below what a pipe holds.
        let _ = stdout.map(|stdout| stdout.take(OUTPUT_LIMIT).read_to_string(&mut said));
        let _ = stderr.map(|stderr| stderr.take(OUTPUT_LIMIT).read_to_string(&mut said));
        let _ = sender.send(said);
    });
    let Ok(said) = ended.recv_timeout(COMMAND_TIMEOUT) else {
        let _ = child.kill();
        let _ = child.wait();
        return failed(format!("it did not end within {} s", COMMAND_TIMEOUT.as_secs()));
    };
    let succeeded = child.wait().is_ok_and(|status| status.success());
    CommandResult {
        succeeded,
        said: said.trim().to_owned(),
    }
}
