//! What a script sees. These types are the interface, not the library's: a field may be added within a version, and is
//! never renamed, removed or given another meaning. Absent values are `null`. `schema` makes the published schemas from them.

mod answer;
mod check;
mod control;
mod daemon;
mod doctor;
mod login;
mod ping;
mod replay;
mod schema;
mod tools;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay::Status;
use mainstay::config::ConfigOrigin;
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

pub(crate) use answer::{AnswerDocument, AnswerSubject};
pub(crate) use check::{CheckDocument, ConfiguredDocument};
pub(crate) use control::{EventLine, LogLine, ReloadDocument, SessionsDocument, StatusDocument};
pub(crate) use daemon::DaemonDocument;
pub(crate) use doctor::DoctorDocument;
pub(crate) use login::{AuthStatusDocument, LoggedInDocument, LogoutDocument};
pub(crate) use ping::PingDocument;
pub(crate) use replay::ReplayDocument;
pub(crate) use schema::{OutputName, schema_of};
pub(crate) use tools::{DescribedDocument, ToolsDocument};

use crate::load::{FoundBy, Setup, Source};
use crate::startup::Standing;

/// The version of every document: 1.
struct DocumentVersion;

impl DocumentVersion {
    const NUMBER: u32 = 1;
}

impl Serialize for DocumentVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(Self::NUMBER)
    }
}

impl PartialSchema for DocumentVersion {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(SchemaType::new(Type::Integer));
        Object::from(number.enum_values(Some([Self::NUMBER]))).into()
    }
}

impl ToSchema for DocumentVersion {}

/// Which configuration was used, and what is wrong with it.
#[derive(Serialize, ToSchema)]
struct ConfigurationDocument {
    source: &'static str,
    path: Option<String>,
    found_by: Option<&'static str>,
    /// The program whose format the file is in; `None` for the one that most programs share.
    format: Option<&'static str>,
    problems: Vec<ProblemDocument>,
    refused: Vec<String>,
    not_used: Vec<String>,
}

/// One thing wrong with a configuration.
#[derive(Serialize, ToSchema)]
struct ProblemDocument {
    severity: String,
    server: Option<String>,
    key: Option<String>,
    file: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
    fix: Option<String>,
}

/// Where a server is in its life.
#[derive(Serialize, ToSchema)]
struct ServerDocument {
    server: String,
    state: &'static str,
    up: bool,
    reason: Option<&'static str>,
    generation: Option<u64>,
    attempt: u32,
    budget: u32,
    next_retry_ms: Option<u64>,
    start: Option<Start>,
    protocol_version: Option<String>,
    era: Option<&'static str>,
    transport: Option<&'static str>,
    listed_at_ms: Option<u64>,
    stale: bool,
    error: Option<FailureReport>,
}

/// What a server does that is being started.
#[derive(Serialize, ToSchema)]
struct Start {
    stage: &'static str,
    program: Option<String>,
    for_ms: u64,
}

/// What went wrong with a server.
#[derive(Serialize, ToSchema)]
struct FailureReport {
    message: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    stderr: Vec<String>,
    login: Option<LoginDocument>,
}

/// What a login to a server would need.
#[derive(Serialize, ToSchema)]
struct LoginDocument {
    resource_metadata: Option<String>,
    scopes: Vec<String>,
}

impl ConfigurationDocument {
    fn of(setup: &Setup) -> Self {
        let (source, path, found_by, format) = match &setup.source {
            Source::File { path, found, host } => (
                "file",
                Some(path.display().to_string()),
                Some(word(*found)),
                host.name(),
            ),
            Source::Demo { .. } => ("demo", None, None, None),
            Source::Arguments => ("arguments", None, None, None),
            Source::Address => ("address", None, None, None),
        };
        Self {
            source,
            path,
            found_by,
            format,
            problems: setup.problems.iter().map(ProblemDocument::of).collect(),
            refused: setup.refused.iter().cloned().collect(),
            not_used: setup
                .mentioned
                .iter()
                .map(|file| file.display().to_string())
                .collect(),
        }
    }
}

fn word(found: FoundBy) -> &'static str {
    match found {
        FoundBy::Daemon => "daemon",
        FoundBy::Search(ConfigOrigin::Flag) => "flag",
        FoundBy::Search(ConfigOrigin::Env) => "env",
        FoundBy::Search(ConfigOrigin::User) => "user",
        FoundBy::Search(_) => "other",
    }
}

impl ProblemDocument {
    fn of(problem: &mainstay::config::Problem) -> Self {
        Self {
            severity: problem.severity.to_string(),
            server: problem.server.clone(),
            key: problem.key.clone(),
            file: problem.file.as_ref().map(|file| file.display().to_string()),
            line: problem.position.map(|position| position.line),
            column: problem.position.map(|position| position.column),
            message: problem.message.clone(),
            fix: problem.fix.clone(),
        }
    }
}

impl ServerDocument {
    fn of(status: &Status) -> Self {
        let up = Standing::of(status) == Standing::Up;
        Self {
            server: status.server.to_string(),
            state: status.state.as_str(),
            up,
            reason: status.reason.map(mainstay::server::Reason::as_str),
            generation: status.generation.map(|generation| generation.0),
            attempt: status.attempt,
            budget: status.budget,
            next_retry_ms: status.next_retry.map(until),
            start: status.start.as_ref().map(Start::of),
            protocol_version: status.protocol.as_ref().map(|(_, version)| version.to_string()),
            era: status.protocol.as_ref().map(|(era, _)| era.as_str()),
            transport: status.transport.map(mainstay::server::TransportKind::as_str),
            listed_at_ms: status.listed_at.map(unix_ms),
            stale: status.stale_since.is_some(),
            // The library remembers what went wrong before a recovery; a script asks what is wrong now.
            error: match up {
                true => status.listing_failure.as_deref().map(FailureReport::of),
                false => status.last_error.as_deref().map(FailureReport::of),
            },
        }
    }
}

impl Start {
    fn of(start: &mainstay::server::StartProgress) -> Self {
        Self {
            stage: start.stage.as_str(),
            program: start.program.as_deref().map(str::to_owned),
            for_ms: ms(start.since.elapsed().unwrap_or_default()),
        }
    }
}

impl FailureReport {
    fn of(failure: &mainstay::Failure) -> Self {
        Self {
            message: failure.message.clone(),
            exit_code: failure.exit.and_then(|exit| exit.code),
            signal: failure.exit.and_then(|exit| exit.signal),
            stderr: failure.stderr.clone(),
            login: failure.challenge.as_ref().map(|challenge| LoginDocument {
                resource_metadata: challenge.resource_metadata.clone(),
                scopes: challenge.scopes.clone(),
            }),
        }
    }
}

fn until(at: SystemTime) -> u64 {
    ms(at.duration_since(SystemTime::now()).unwrap_or_default())
}

fn unix_ms(at: SystemTime) -> u64 {
    ms(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
