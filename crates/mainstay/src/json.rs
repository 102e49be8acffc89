//! [`Status`] and [`Event`] as JSON, for dashboards, logs and APIs of embedders.
//!
//! The types here are the format; the types that they are made from can change without it. Fields may be added. A change
//! that a reader could stumble over raises [`VERSION`]. Times are milliseconds since the Unix epoch. The session id is left
//! out: a reader who knows it can act as this client.

use std::time::{SystemTime, UNIX_EPOCH};

use mainstay_lifecycle::Desired;
use serde::{Serialize, Serializer};

use crate::event::{Event, Failure};
use crate::protocol::Era;
use crate::server::{Reason, StartProgress, Status, TransportKind};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct StatusJson<'a> {
    version: u32,
    server: &'a str,
    state: &'static str,
    since_ms: u64,
    enabled: bool,
    reason: Option<&'static str>,
    generation: Option<u64>,
    attempt: u32,
    budget: u32,
    next_retry_ms: Option<u64>,
    calls_held_until_ms: Option<u64>,
    silent_since_ms: Option<u64>,
    start: Option<StartJson<'a>>,
    last_error: Option<FailureJson<'a>>,
    pid: Option<i32>,
    protocol: Option<ProtocolJson<'a>>,
    transport: Option<&'static str>,
    last_success_ms: Option<u64>,
    call_failures: u32,
    removed: bool,
    listed_at_ms: Option<u64>,
    stale_since_ms: Option<u64>,
    listing_failure: Option<FailureJson<'a>>,
    next_listing_ms: Option<u64>,
    stale_reports: u64,
    unrestored: usize,
    starts: u64,
    keeper_failures: u64,
}

#[derive(Serialize)]
struct EventJson<'a> {
    version: u32,
    sequence: u64,
    at_ms: u64,
    server: &'a str,
    generation: Option<u64>,
    from: &'static str,
    to: &'static str,
    cause: &'static str,
    error: Option<FailureJson<'a>>,
    attempt: u32,
    next_retry_ms: Option<u64>,
}

#[derive(Serialize)]
struct FailureJson<'a> {
    message: &'a str,
    generation: Option<u64>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    stderr: &'a [String],
    login_required: bool,
}

#[derive(Serialize)]
struct StartJson<'a> {
    stage: &'static str,
    since_ms: u64,
    program: Option<&'a str>,
}

#[derive(Serialize)]
struct ProtocolJson<'a> {
    era: &'static str,
    version: &'a str,
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = StatusJson {
            version: VERSION,
            server: &self.server,
            state: self.state.as_str(),
            since_ms: unix_ms(self.since),
            enabled: self.desired == Desired::Enabled,
            reason: self.reason.map(Reason::as_str),
            generation: self.generation.map(|generation| generation.0),
            attempt: self.attempt,
            budget: self.budget,
            next_retry_ms: self.next_retry.map(unix_ms),
            calls_held_until_ms: self.calls_held_until.map(unix_ms),
            silent_since_ms: self.silent_since.map(unix_ms),
            start: self.start.as_ref().map(StartJson::of),
            last_error: self.last_error.as_deref().map(FailureJson::of),
            pid: self.pid,
            protocol: self.protocol.as_ref().map(|(era, version)| ProtocolJson {
                era: match era {
                    Era::Legacy => "legacy",
                    Era::Modern => "modern",
                },
                version,
            }),
            transport: self.transport.map(TransportKind::as_str),
            last_success_ms: self.last_success.map(unix_ms),
            call_failures: self.call_failures,
            removed: self.removed,
            listed_at_ms: self.listed_at.map(unix_ms),
            stale_since_ms: self.stale_since.map(unix_ms),
            listing_failure: self.listing_failure.as_deref().map(FailureJson::of),
            next_listing_ms: self.next_listing.map(unix_ms),
            stale_reports: self.stale_reports,
            unrestored: self.unrestored,
            starts: self.starts,
            keeper_failures: self.keeper_failures,
        };
        json.serialize(serializer)
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = EventJson {
            version: VERSION,
            sequence: self.sequence,
            at_ms: unix_ms(self.at),
            server: &self.server,
            generation: self.generation.map(|generation| generation.0),
            from: self.from.as_str(),
            to: self.to.as_str(),
            cause: self.cause.as_str(),
            error: self.error.as_deref().map(FailureJson::of),
            attempt: self.attempt,
            next_retry_ms: self.next_retry.map(unix_ms),
        };
        json.serialize(serializer)
    }
}

impl<'a> FailureJson<'a> {
    fn of(failure: &'a Failure) -> Self {
        Self {
            message: &failure.message,
            generation: failure.generation.map(|generation| generation.0),
            exit_code: failure.exit.and_then(|exit| exit.code),
            signal: failure.exit.and_then(|exit| exit.signal),
            stderr: &failure.stderr,
            login_required: failure.challenge.is_some(),
        }
    }
}

impl<'a> StartJson<'a> {
    fn of(start: &'a StartProgress) -> Self {
        Self {
            stage: start.stage.as_str(),
            since_ms: unix_ms(start.since),
            program: start.program.as_deref(),
        }
    }
}

fn unix_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
