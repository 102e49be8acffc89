//! `mainstay status`: what the daemon's servers do.

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use mainstay::config::nearest;
use mainstay_control::ControlClient;
use mainstay_control::api::{ProgramStatus, ServerStatus};
use tokio::time::{Instant, sleep_until};

use super::events::{FollowedChange, Following};
use super::say::now_ms;
use super::show::{Footing, StatusPage};
use super::{StatusArgs, failed, with_daemon};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::StatusDocument;
use crate::output::{Ink, Live, Screen, Text};

/// How long changes are collected before the servers are looked at again.
const COLLECT_PERIOD: Duration = Duration::from_millis(100);

/// How long the stream of a daemon's events may outlive the daemon's answers.
const END_TIMEOUT: Duration = Duration::from_secs(5);

const DAEMON_AWAY: &str = "the daemon has ended: this was its last state; waiting for the next daemon";

/// How often countdowns and ages are drawn again on a terminal. This sends no request.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &StatusArgs, screen: &Screen) -> Done {
    with_daemon(async |client| {
        if arguments.watch {
            return watch(client, arguments, screen).await;
        }
        let seen = Seen::look(client, &arguments.servers).await?;
        if arguments.json {
            screen.print(Text::document(&seen.document()))?;
        } else {
            screen.print(seen.text(screen, arguments.verbose))?;
        }
        Ok(seen.exit())
    })
}

/// What was seen of the daemon.
struct Seen {
    program: ProgramStatus,
    at_ms: u64,
    servers: Vec<ServerStatus>,
}

impl Seen {
    async fn look(client: &ControlClient, wanted: &[String]) -> Result<Self, CommandFailure> {
        let (program, list) = tokio::try_join!(client.program(), client.servers(true)).map_err(failed)?;
        let mut servers = list.servers;
        for name in wanted {
            if !servers.iter().any(|server| server.name == *name) {
                let known = servers.iter().map(|server| server.name.as_str());
                let meant = nearest(name, known).map(|meant| format!("; did you mean {meant:?}?"));
                let meant = meant.unwrap_or_default();
                return Err(CommandFailure::usage(anyhow!(
                    "the daemon has no server {name:?}{meant}"
                )));
            }
        }
        if !wanted.is_empty() {
            servers.retain(|server| wanted.contains(&server.name));
        }
        Ok(Self {
            program,
            at_ms: list.at_ms,
            servers,
        })
    }

    fn document(&self) -> StatusDocument<'_> {
        StatusDocument::new(&self.program, self.at_ms, &self.servers)
    }

    fn text(&self, screen: &Screen, is_verbose: bool) -> Text {
        let page = StatusPage {
            program: &self.program,
            servers: &self.servers,
            now_ms: now_ms(),
            paint: screen.out,
            width: screen.width,
            is_verbose,
        };
        page.text()
    }

    fn exit(&self) -> Exit {
        let is_well = |server: &ServerStatus| matches!(Footing::of(server), Footing::Up | Footing::Off);
        if self.servers.iter().all(is_well) {
            Exit::Success
        } else {
            Exit::Failed
        }
    }
}

/// Shows the servers again after each event, and whether the daemon is there. On a terminal the text stays in its place.
async fn watch(client: &ControlClient, arguments: &StatusArgs, screen: &Screen) -> Done {
    // In this order no change is missed between the two.
    let mut following = Following::from_now(client, None).await?;
    let mut seen = Seen::look(client, &arguments.servers).await?;
    let is_live = !arguments.json && screen.is_terminal() && screen.is_live();
    let mut live = Live::default();
    loop {
        if arguments.json {
            let mut line = Text::object(&seen.document());
            line.push("\n");
            screen.print(line)?;
        } else if !is_live {
            screen.print(seen.text(screen, arguments.verbose))?;
        }
        let mut is_away = false;
        seen = loop {
            let change = {
                let mut change = pin!(following.change());
                loop {
                    if is_live {
                        let mut text = seen.text(screen, arguments.verbose);
                        if is_away {
                            text.push_line(screen.out.ink(Ink::Red, DAEMON_AWAY));
                        }
                        live.draw(&text.split_lines());
                    }
                    tokio::select! {
                        change = &mut change => break change?,
                        () = sleep_until(Instant::now() + REDRAW_INTERVAL), if is_live => {}
                    }
                }
            };
            match change {
                FollowedChange::Away => {}
                FollowedChange::Event(_) | FollowedChange::Back => {
                    // One look for a burst of changes.
                    tokio::time::sleep(COLLECT_PERIOD).await;
                    match Seen::look(client, &arguments.servers).await {
                        Ok(seen) => break seen,
                        Err(failure) => following.wait_ended(END_TIMEOUT).await.map_err(|_| failure)?,
                    }
                }
            }
            is_away = true;
            if !is_live {
                screen.warning(DAEMON_AWAY);
            }
        };
    }
}
