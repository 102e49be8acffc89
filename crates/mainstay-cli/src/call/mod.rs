//! `mainstay call`: one call of one tool. Only its server is started.

mod arguments;
mod content;
mod failed;
mod progress;

use std::io;
use std::time::Duration;

use anyhow::anyhow;
use mainstay::config::nearest;
use mainstay::{CallError, CallOptions, Fleet, PublicTool, Reply, Server};
use serde::Deserialize;
use tokio::time::Instant;

use crate::args::{Call, Common};
use crate::exit::{Done, Exit, Failure};
use crate::json;
use crate::load::load;
use crate::output::{Screen, Text, text};
use crate::run::with_fleet;
use crate::startup::{Progress, Standing, Startup};
use arguments::{Arguments, Schema};
use content::Answer;

/// How long a server may take to come up, where the call sets no limit of its own.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn run(call: &Call, common: &Common, screen: &Screen) -> Done {
    // Before anything is started: a mistake here costs nothing, and Ctrl-C while stdin is awaited ends the program.
    let arguments = Arguments::read(&call.arguments, io::stdin()).map_err(Failure::usage)?;
    let mut setup = load(common)?;
    setup.announce(screen);
    setup.keep(std::slice::from_ref(&call.server))?;
    with_fleet(&setup, screen, async |fleet| {
        let server = fleet
            .server(&call.server)
            .ok_or_else(|| Failure::failed(anyhow!("the server is gone")))?;
        let called = Called {
            call,
            screen,
            fleet,
            server,
        };
        called.make(&arguments).await
    })
}

struct Called<'a> {
    call: &'a Call,
    screen: &'a Screen,
    fleet: &'a Fleet,
    server: Server,
}

impl Called<'_> {
    async fn make(&self, arguments: &Arguments) -> Done {
        let began = Instant::now();
        let within = self.call.timeout.unwrap_or(CONNECT_WITHIN);
        if let Err(error) = self.connected(within).await {
            return self.failed(&error).await;
        }
        let catalog = self.fleet.catalog();
        let tool = find(catalog.tools(), &self.call.tool).map_err(Failure::usage)?;
        let arguments = arguments.fit(schema(tool).as_ref()).map_err(Failure::usage)?;
        let (progress, mut options) = progress::shown(self.screen, CallOptions::default());
        if let Some(timeout) = self.call.timeout {
            let left = timeout.saturating_sub(began.elapsed());
            options = options.timeout(left).idle_timeout(left);
        }
        let answered = self.server.call(tool.original(), &arguments, options).await;
        progress.ended().await;
        match answered {
            Ok(reply) => self.answered(&reply),
            Err(error) => self.failed(&error).await,
        }
    }

    /// Waits for the server as long as it is worth it.
    async fn connected(&self, within: Duration) -> Result<(), CallError> {
        let startup = Startup::of(self.fleet);
        let mut progress = Progress::new(self.screen, false);
        let statuses = startup
            .settle(within, |statuses| progress.show(&startup, self.fleet, statuses))
            .await;
        drop(progress);
        if statuses.iter().all(|status| Standing::of(status) == Standing::Up) {
            return Ok(());
        }
        // It is not up: the library says why, in the words of a call that was not sent.
        match self.server.wait_connected(Duration::ZERO).await {
            Ok(_) => Ok(()),
            // How long it was waited for is no news to whoever waited.
            Err(CallError::WaitTimedOut { now, .. }) => Err(CallError::NotConnected(now)),
            Err(error) => Err(error),
        }
    }

    fn answered(&self, reply: &Reply) -> Done {
        let answer = Answer::read(&reply.result);
        let exit = if answer.is_error {
            Exit::Failed
        } else {
            Exit::Success
        };
        if self.call.json {
            let document = json::Call::answered(&self.call.server, &self.call.tool, reply, answer.is_error);
            self.screen.print(Text::document(&document))?;
        } else if answer.is_error {
            self.screen.error(text!(
                "the tool answered with an error: {}",
                Text::lines(answer.text().trim_end())
            ));
        } else {
            self.screen.print_payload(&answer.text())?;
        }
        Ok(exit)
    }
}

/// The tool that was meant: by the server's own name for it, or by its public one.
fn find<'c>(tools: &'c [PublicTool], name: &str) -> anyhow::Result<&'c PublicTool> {
    let is_meant = |tool: &&PublicTool| tool.original() == name || tool.name() == name;
    if let Some(tool) = tools.iter().find(is_meant) {
        return Ok(tool);
    }
    match nearest(name, tools.iter().map(PublicTool::original)) {
        Some(meant) => Err(anyhow!("there is no tool {name:?}; did you mean {meant:?}?")),
        None => Err(anyhow!("there is no tool {name:?}; `mainstay tools` lists them")),
    }
}

fn schema(tool: &PublicTool) -> Option<Schema> {
    #[derive(Deserialize)]
    struct Tool {
        #[serde(rename = "inputSchema")]
        input_schema: Schema,
    }
    tool.raw().parse::<Tool>().ok().map(|tool| tool.input_schema)
}
