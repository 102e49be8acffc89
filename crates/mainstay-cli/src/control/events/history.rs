//! `mainstay events --since`: the commands that are kept on disk, merged with the events that the daemon keeps.

use std::collections::HashSet;
use std::env;
use std::io::ErrorKind;
use std::time::Duration;

use anyhow::Context as _;
use mainstay_control::api::{EventPage, EventRecord, ProblemKind};
use mainstay_control::{AuditReading, AuditRecord, ControlClient, ControlError, read_audit};
use mainstay_daemon::live::state_directory;

use super::{Following, follow, print};
use crate::control::say::now_ms;
use crate::control::{EventsArgs, MAX_EVENTS, daemon_client, failed, running};
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::{Screen, count, text};

pub(super) fn run(arguments: &EventsArgs, since: Duration, screen: &Screen) -> Done {
    let stored = stored().map_err(CommandFailure::failed)?;
    if stored.unreadable > 0 {
        let unreadable = count(stored.unreadable, "line");
        screen.warning(text!("{} of the stored commands cannot be read", unreadable));
    }
    let client = match daemon_client() {
        Ok(client) => client,
        Err(failure) if arguments.follow => return Err(failure),
        Err(_no_daemon) => {
            return print_all(&merged(stored.records, None, arguments, since), arguments, screen);
        }
    };
    running(async {
        let server = arguments.server.as_deref();
        if let Some(name) = server.filter(|_| arguments.follow) {
            // A wrong name is an error at once, instead of a wait for its events.
            client.server(name).await.map_err(failed)?;
        }
        let page = live(&client, server).await?;
        let id = page
            .as_ref()
            .map(|page| format!("{}.{}", page.instance, page.last));
        print_all(&merged(stored.records, page, arguments, since), arguments, screen)?;
        match id.filter(|_| arguments.follow) {
            Some(id) => {
                follow(
                    Following::after(&client, server, id).await?,
                    arguments.json,
                    screen,
                )
                .await
            }
            None => Ok(Exit::Success),
        }
    })
}

fn stored() -> anyhow::Result<AuditReading> {
    let Some(directory) = state_directory(|name| env::var_os(name)) else {
        return Ok(AuditReading::default());
    };
    let read = read_audit(&directory);
    read.with_context(|| format!("cannot read the stored commands in {}", directory.display()))
}

/// All events that the daemon keeps; `None` if it ended at this moment, or has no such server.
async fn live(client: &ControlClient, server: Option<&str>) -> Result<Option<EventPage>, CommandFailure> {
    let limit = usize::try_from(MAX_EVENTS).unwrap_or(usize::MAX);
    match client.last_events(server, limit).await {
        Ok(page) => Ok(Some(page)),
        Err(ControlError::Unreachable(error))
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(ControlError::Problem(problem)) if problem.kind == ProblemKind::UnknownServer => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// What happened since then, each event once, in the order of the times.
fn merged(
    stored: Vec<AuditRecord>,
    live: Option<EventPage>,
    arguments: &EventsArgs,
    since: Duration,
) -> Vec<EventRecord> {
    let from = now_ms().saturating_sub(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    merge(stored, live, arguments.server.as_deref(), from, arguments.last)
}

fn merge(
    stored: Vec<AuditRecord>,
    live: Option<EventPage>,
    server: Option<&str>,
    from_ms: u64,
    last: Option<u32>,
) -> Vec<EventRecord> {
    let instance = live.as_ref().map(|page| page.instance.clone());
    let events = live.map(|page| page.events).unwrap_or_default();
    let seen: HashSet<u64> = events.iter().map(|event| event.sequence).collect();
    let is_live = |record: &AuditRecord| {
        instance.as_ref() == Some(&record.instance) && seen.contains(&record.event.sequence)
    };
    let stored = stored.into_iter().filter(|record| !is_live(record));
    let stored = stored.map(|record| record.event);
    let is_wanted = |event: &EventRecord| {
        event.at_ms >= from_ms && server.is_none_or(|server| event.server.as_deref() == Some(server))
    };
    let mut all: Vec<_> = stored.chain(events).filter(is_wanted).collect();
    // Stable: what happened in one millisecond stays in its order.
    all.sort_by_key(|event| event.at_ms);
    if let Some(last) = last {
        let last = usize::try_from(last).unwrap_or(usize::MAX);
        all.drain(..all.len().saturating_sub(last));
    }
    all
}

fn print_all(events: &[EventRecord], arguments: &EventsArgs, screen: &Screen) -> Done {
    for event in events {
        print(arguments.json, event, screen)?;
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(sequence: u64, at_ms: u64, server: &str) -> EventRecord {
        let by = json!({ "via": "api", "agent": null, "who": "uid 7" });
        let event = json!({ "sequence": sequence, "at_ms": at_ms, "node": null, "server": server,
            "type": "command", "command": "restart", "by": by, "refused": null });
        serde_json::from_value(event).expect("an event")
    }

    fn kept(instance: &str, event: EventRecord) -> AuditRecord {
        AuditRecord {
            instance: instance.to_owned(),
            event,
        }
    }

    #[test]
    fn stored_and_live_events_are_one_list_in_the_order_of_their_times_without_duplicates() {
        let stored = || {
            vec![
                kept("before", event(1, 10, "a")),
                kept("before", event(2, 20, "b")),
                kept("now", event(1, 30, "a")),
                kept("now", event(3, 50, "a")),
                kept("serve", event(3, 55, "a")),
            ]
        };
        // Its first event is no longer kept by the daemon.
        let live = || EventPage {
            instance: "now".to_owned(),
            lost: Some(1),
            last: 4,
            events: vec![event(2, 40, "a"), event(3, 50, "a"), event(4, 60, "b")],
        };
        let times = |merged: Vec<EventRecord>| merged.iter().map(|event| event.at_ms).collect::<Vec<_>>();
        assert_eq!(
            times(merge(stored(), Some(live()), None, 0, None)),
            [10, 20, 30, 40, 50, 55, 60]
        );
        assert_eq!(
            times(merge(stored(), Some(live()), None, 30, None)),
            [30, 40, 50, 55, 60]
        );
        assert_eq!(times(merge(stored(), Some(live()), Some("b"), 0, None)), [20, 60]);
        assert_eq!(times(merge(stored(), Some(live()), None, 0, Some(2))), [55, 60]);
        assert_eq!(times(merge(stored(), None, None, 20, None)), [20, 30, 50, 55]);
    }
}
