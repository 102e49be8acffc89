//! `mainstay events`: what happened, and who did what.

mod history;

use std::time::Duration;

use anyhow::anyhow;
use mainstay_control::api::{EventMessage, EventRecord, LagMarker};
use mainstay_control::{ControlClient, ControlError, EventStream};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use super::{EventsArgs, failed, say, with_daemon};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::EventLine;
use crate::output::{Screen, Text};

/// How long a daemon that ended may take to come back: one that is replaced finishes its calls first.
pub(super) const RETURN_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked for meanwhile.
pub(super) const RETURN_INTERVAL: Duration = Duration::from_millis(250);

/// How many events are shown unless the person says how many.
const DEFAULT_LAST: u32 = 50;

pub(crate) fn run(arguments: &EventsArgs, screen: &Screen) -> Done {
    if let Some(since) = arguments.since {
        return history::run(arguments, since, screen);
    }
    with_daemon(async |client| {
        let server = arguments.server.as_deref();
        if let Some(name) = server {
            // A wrong name is an error at once, instead of a wait for its events.
            client.server(name).await.map_err(failed)?;
        }
        let last = usize::try_from(arguments.last.unwrap_or(DEFAULT_LAST)).unwrap_or(usize::MAX);
        if !arguments.follow {
            let page = client.last_events(server, last).await.map_err(failed)?;
            for event in &page.events {
                print(arguments.json, event, screen)?;
            }
            return Ok(Exit::Success);
        }
        follow(
            Following::from_tail(client, server, last).await?,
            arguments.json,
            screen,
        )
        .await
    })
}

/// Prints events as they happen.
async fn follow(mut following: Following<'_>, is_json: bool, screen: &Screen) -> Done {
    loop {
        match following.next().await? {
            EventMessage::Event(event) => print(is_json, &event, screen)?,
            EventMessage::Lagged(marker) => print_lag(is_json, &marker, screen)?,
        }
    }
}

fn print(is_json: bool, event: &EventRecord, screen: &Screen) -> Result<(), CommandFailure> {
    let mut line = match is_json {
        true => Text::object(&EventLine::Event(event)),
        false => say::event(event, screen.out),
    };
    line.push("\n");
    screen.print(line)
}

fn print_lag(is_json: bool, marker: &LagMarker, screen: &Screen) -> Result<(), CommandFailure> {
    if is_json {
        let mut line = Text::object(&EventLine::missing(marker));
        line.push("\n");
        return screen.print(line);
    }
    screen.warning(say::lag(marker));
    Ok(())
}

/// Events as they happen, across restarts of the daemon.
pub(super) struct Following<'a> {
    client: &'a ControlClient,
    server: Option<&'a str>,
    stream: EventStream,
    last_id: Option<String>,
    /// While there is no daemon: when the wait for the next one ends.
    away_until: Option<Instant>,
}

/// What a follower of events sees.
pub(super) enum FollowedChange {
    Event(EventMessage),
    /// The daemon has ended.
    Away,
    /// The next daemon is there. Events may be missing.
    Back,
}

impl<'a> Following<'a> {
    /// From so many before the last on.
    pub(super) async fn from_tail(
        client: &'a ControlClient,
        server: Option<&'a str>,
        tail: usize,
    ) -> Result<Self, CommandFailure> {
        let stream = client.events(server, tail).await.map_err(failed)?;
        Ok(Self {
            client,
            server,
            stream,
            last_id: None,
            away_until: None,
        })
    }

    /// From the event with this id on.
    async fn after(
        client: &'a ControlClient,
        server: Option<&'a str>,
        id: String,
    ) -> Result<Self, CommandFailure> {
        let stream = client.events_after(server, &id).await.map_err(failed)?;
        Ok(Self {
            client,
            server,
            stream,
            last_id: Some(id),
            away_until: None,
        })
    }

    /// From now on.
    pub(super) async fn from_now(
        client: &'a ControlClient,
        server: Option<&'a str>,
    ) -> Result<Self, CommandFailure> {
        Self::from_tail(client, server, 0).await
    }

    /// The next event. If the daemon ends, this waits for the daemon that replaces it.
    async fn next(&mut self) -> Result<EventMessage, CommandFailure> {
        loop {
            if let FollowedChange::Event(message) = self.change().await? {
                return Ok(message);
            }
        }
    }

    /// The next event, or the end or the return of the daemon.
    pub(super) async fn change(&mut self) -> Result<FollowedChange, CommandFailure> {
        if let Some(deadline) = self.away_until {
            self.stream = self.resume(deadline).await?;
            self.away_until = None;
            return Ok(FollowedChange::Back);
        }
        match self.stream.next().await {
            Some(Ok(message)) => {
                if let Some(id) = self.stream.last_id() {
                    self.last_id = Some(id.to_owned());
                }
                Ok(FollowedChange::Event(message))
            }
            Some(Err(error @ ControlError::BadAnswer(_))) => Err(failed(error)),
            Some(Err(_)) | None => {
                self.away_until = Some(Instant::now() + RETURN_LIMIT);
                Ok(FollowedChange::Away)
            }
        }
    }

    /// Waits for the end of a daemon that no longer answers. Fails if the daemon has not ended by then.
    pub(super) async fn wait_ended(&mut self, within: Duration) -> Result<(), Elapsed> {
        let ended = async { while !matches!(self.change().await, Ok(FollowedChange::Away) | Err(_)) {} };
        timeout(within, ended).await
    }

    async fn resume(&self, deadline: Instant) -> Result<EventStream, CommandFailure> {
        loop {
            let opened = match &self.last_id {
                Some(id) => self.client.events_after(self.server, id).await,
                None => self.client.events(self.server, 0).await,
            };
            match opened {
                Ok(stream) => return Ok(stream),
                Err(error @ ControlError::Problem(_)) => return Err(failed(error)),
                Err(_) if Instant::now() < deadline => sleep(RETURN_INTERVAL).await,
                Err(_) => return Err(CommandFailure::failed(anyhow!("the daemon has ended"))),
            }
        }
    }
}
