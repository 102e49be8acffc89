//! The types of the control API, version 1.
//!
//! They are the interface, and not the library's types. Within a version a field may be added, and none is renamed, removed
//! or given another meaning. An absent value is `null`. Times end in `_ms` and are milliseconds since 1970.

mod call;
mod catalog;
mod event;
mod footing;
mod login;
mod problem;
mod program;
mod recording;
mod reload;
mod server;
mod session;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use call::{CallFailure, CallReport, CallRequest, PingReport};
pub use catalog::{
    CatalogChange, CatalogDocument, CatalogEntry, CatalogItem, ChangedEntry, ChangedMember, RefreshReport,
    SetAside,
};
pub use event::{Actor, ActorKind, EventDetail, EventMessage, EventPage, EventRecord, LagMarker, LagReason};
pub use footing::{Footing, ServerCount};
pub use login::{LoginBeginning, LoginCallback, LoginProgress, LoginState};
pub use problem::{ApiProblem, ProblemKind};
pub use program::{PageLink, ProgramStatus};
pub use recording::{LossRecord, MessageRecord, RecordingDocument};
pub use reload::{ConfigProblem, EntryDocument, ReloadReport};
pub use server::{
    CallTotals, CatalogSummary, DesiredState, FailedCalls, FailureDocument, LoginNeeded, PendingCallStatus,
    ProcessStatus, ServerList, ServerOrigin, ServerStatus, StartStatus, StateName, StderrPage, StderrRecord,
};
pub use session::{RunningCall, SessionDoor, SessionList, SessionStatus};

/// Milliseconds since 1970.
pub(crate) fn unix_ms(at: SystemTime) -> u64 {
    ms(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn now_ms() -> u64 {
    unix_ms(SystemTime::now())
}
