//! What a person writes: `mcpServers` files, and the same settings from Rust.
//!
//! A file is found by [`locate`], read by [`Configuration::load`], and becomes a list of [`ServerConfig`]s and a list of
//! [`Problem`]s. A mistake in one server costs that server alone; only a file that cannot be read as a whole is a
//! [`ConfigError`]. The walk of a file: `parse` finds the entries, `entry` reads one of them through `fields`, `expand`
//! and `duration`, and hands the values to the builder that embedders use too, so both pass the same checks.
//!
//! Invariants: a `ServerConfig` that exists is valid; values of `env` and of headers, tokens and expanded variables are
//! in no `Debug`, no `Display` and no problem; nothing here starts or connects to anything, or opens a file but the one
//! it was asked to read and the certificates that it names.

mod builder;
mod check;
mod configuration;
mod duration;
mod entry;
mod error;
mod expand;
mod fields;
mod glob;
mod identity;
mod locate;
mod nearest;
mod parse;
mod paths;
mod problem;
mod report;
mod restart;
mod runner;
mod secret;
mod server;
mod settings;
mod target;
mod view;

#[cfg(test)]
mod tests;

pub use builder::{InvalidServer, ServerBuilder};
pub use configuration::{Configuration, MAX_FILE_BYTES};
pub use duration::{InvalidDuration, parse_duration};
pub use error::ConfigError;
pub use identity::Identity;
pub use locate::{Located, Origin, locate};
pub use nearest::nearest;
pub use problem::{Place, Problem, Severity};
pub use secret::Secret;
pub use server::{Isolation, Replay, ServerConfig};
pub use target::{CustomTarget, HttpKind, HttpTarget, StdioTarget, Target, Text};
pub use view::ToolView;
