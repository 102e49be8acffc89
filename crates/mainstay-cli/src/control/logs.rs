//! `mainstay logs`: what a server wrote to stderr.

use mainstay_control::api::StderrRecord;

use super::documents::{LagLine, LogLine};
use super::{LogsArgs, failed, say, with_daemon};
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::{Screen, Text, plain, text};

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
        let mut stream = stream.map_err(failed)?;
        while let Some(line) = stream.next().await {
            match line.map_err(failed)? {
                Ok(line) => print(arguments, &line, screen)?,
                Err(marker) if arguments.json => {
                    let mut line = Text::object(&LagLine::new(&marker));
                    line.push("\n");
                    screen.print(line)?;
                }
                Err(marker) => screen.warning(say::lag(&marker)),
            }
        }
        screen.note("the server was removed, or the daemon has ended");
        Ok(Exit::Success)
    })
}

fn print(arguments: &LogsArgs, line: &StderrRecord, screen: &Screen) -> Result<(), CommandFailure> {
    let mut said = match arguments.json {
        true => Text::object(&LogLine::new(&arguments.server, line)),
        false => text!(
            "{}  {}",
            screen.out.dim(say::moment(line.at_ms)),
            plain(&line.text)
        ),
    };
    said.push("\n");
    screen.print(said)
}
