//! `mainstay logs`: what a server wrote to stderr.

use anyhow::anyhow;
use mainstay_control::api::{ProblemKind, StderrRecord};
use mainstay_control::{ControlClient, ControlError, StderrStream};
use tokio::time::{Instant, sleep};

use super::events::{RETURN_INTERVAL, RETURN_LIMIT};
use super::{LogsArgs, failed, say, with_daemon};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::LogLine;
use crate::output::{Screen, Text};

pub(crate) fn run(arguments: &LogsArgs, screen: &Screen) -> Done {
    with_daemon(async |client| {
        let lines = usize::try_from(arguments.lines).unwrap_or(usize::MAX);
        if !arguments.follow {
            let page = client.stderr(&arguments.server, lines).await.map_err(failed)?;
            if page.lines.is_empty() && !arguments.json {
                screen.note("it has written nothing to stderr");
            }
            for line in &page.lines {
                print(arguments, line, screen)?;
            }
            return Ok(Exit::Success);
        }
        let stream = client.follow_stderr(&arguments.server, lines).await;
        let mut stream = Some(stream.map_err(failed)?);
        while let Some(open) = stream {
            follow(open, arguments, screen).await?;
            stream = reopen(client, &arguments.server).await?;
        }
        screen.note("the server was removed");
        Ok(Exit::Success)
    })
}

/// Prints lines until the stream ends.
async fn follow(
    mut stream: StderrStream,
    arguments: &LogsArgs,
    screen: &Screen,
) -> Result<(), CommandFailure> {
    while let Some(Ok(line)) = stream.next().await {
        match line {
            Ok(line) => print(arguments, &line, screen)?,
            Err(marker) if arguments.json => {
                let mut line = Text::object(&LogLine::Lagged(&marker));
                line.push("\n");
                screen.print(line)?;
            }
            Err(marker) => screen.warning(say::lag(&marker)),
        }
    }
    Ok(())
}

/// Waits for the daemon that replaces one that ended; `None` if there is no such server any more. A new daemon has started the
/// server again, so all lines that it keeps are new.
async fn reopen(client: &ControlClient, server: &str) -> Result<Option<StderrStream>, CommandFailure> {
    let deadline = Instant::now() + RETURN_LIMIT;
    loop {
        match client.follow_stderr(server, usize::MAX).await {
            Ok(stream) => return Ok(Some(stream)),
            Err(ControlError::Problem(problem)) if problem.kind == ProblemKind::UnknownServer => {
                return Ok(None);
            }
            Err(error @ ControlError::Problem(_)) => return Err(failed(error)),
            Err(_) if Instant::now() < deadline => sleep(RETURN_INTERVAL).await,
            Err(_) => return Err(CommandFailure::failed(anyhow!("the daemon has ended"))),
        }
    }
}

fn print(arguments: &LogsArgs, line: &StderrRecord, screen: &Screen) -> Result<(), CommandFailure> {
    let mut said = match arguments.json {
        true => Text::object(&LogLine::Line {
            server: &arguments.server,
            line,
        }),
        false => say::stderr_line(line, screen.out),
    };
    said.push("\n");
    screen.print(said)
}
