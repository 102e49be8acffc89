//! The documents of the commands that ask the daemon. They carry the types of the control API as they are.

use mainstay_control::api::{
    EventRecord, LagMarker, ProgramStatus, ReloadReport, ServerStatus, SessionStatus, StderrRecord,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::DocumentVersion;

/// `status --json`.
#[derive(Serialize, ToSchema)]
pub(crate) struct StatusDocument<'a> {
    version: DocumentVersion,
    at_ms: u64,
    program: &'a ProgramStatus,
    servers: &'a [ServerStatus],
}

impl<'a> StatusDocument<'a> {
    pub(crate) fn new(program: &'a ProgramStatus, at_ms: u64, servers: &'a [ServerStatus]) -> Self {
        Self {
            version: DocumentVersion,
            at_ms,
            program,
            servers,
        }
    }
}

/// `sessions --json`.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionsDocument<'a> {
    version: DocumentVersion,
    sessions: &'a [SessionStatus],
}

impl<'a> SessionsDocument<'a> {
    pub(crate) fn new(sessions: &'a [SessionStatus]) -> Self {
        Self {
            version: DocumentVersion,
            sessions,
        }
    }
}

/// `reload --json`.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReloadDocument<'a> {
    version: DocumentVersion,
    #[serde(flatten)]
    report: &'a ReloadReport,
}

impl<'a> ReloadDocument<'a> {
    pub(crate) fn new(report: &'a ReloadReport) -> Self {
        Self {
            version: DocumentVersion,
            report,
        }
    }
}

/// A line of `events --json`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum EventLine<'a> {
    Event(&'a EventRecord),
    Missing(LagLine<'a>),
}

impl<'a> EventLine<'a> {
    /// The line in place of events that are missing.
    pub(crate) fn missing(marker: &'a LagMarker) -> Self {
        Self::Missing(LagLine::Lagged(marker))
    }
}

/// A line that stands for lines that are missing.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum LagLine<'a> {
    Lagged(&'a LagMarker),
}

/// A line of `logs --json`.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum LogLine<'a> {
    Line {
        server: &'a str,
        #[serde(flatten)]
        line: &'a StderrRecord,
    },
    /// Lines are missing here.
    Lagged(&'a LagMarker),
}
