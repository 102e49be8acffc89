//! The control API of a running Mainstay: its types, its HTTP service under `/api/v1`, and a client for it.
//!
//! A program that serves (`mainstay serve`, the daemon) makes a [`Control`], [attaches](Control::attach) its gateways, and
//! serves a [`ControlService`] on a unix socket or beside its HTTP door. What only the program itself can do, such as reading
//! its configuration again, it implements as [`Controlled`]. A [`ControlClient`] is what commands use.
//!
//! Invariants: the API reads what the fleet publishes and asks keepers; it owns no state of a server. A slow or vanished
//! reader delays no other and no server: each reads the one bounded journal at its own pace, and learns what it missed.
//! Every command of a person is an event.

pub mod api;
mod audit;
mod catalog_changes;
mod client;
mod control;
mod controlled;
mod journal;
mod logins;
mod metrics;
mod openapi;
mod page;
mod recorded;
mod recording;
mod service;
mod status;
mod token;

pub use audit::{AuditReading, AuditRecord, append_audit, read_audit};
pub use client::{ControlClient, ControlError, EventStream, StderrStream};
pub use control::{Attached, Control, ControlBuilder, Role, ServerGroup};
pub use controlled::{Controlled, Controlling};
pub use metrics::{METRICS_PATH, MetricsAccess};
pub use openapi::document as openapi_document;
pub use page::{PAGE_CODE_LIFETIME, PAGE_ROOT, PageLogins};
pub use service::{API_ROOT, ControlService, OpenPage};
pub use token::{TokenFileError, token_from_file};
