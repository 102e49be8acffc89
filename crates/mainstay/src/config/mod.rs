//! What a person writes: `mcpServers` files and those of other programs, and the same settings from Rust.
//!
//! A file is found by [`locate`], read by [`Configuration::load`], and becomes a list of [`ServerConfig`]s and a list of
//! [`Problem`]s. A mistake in one server costs that server alone; only a file that cannot be read as a whole is a
//! [`ConfigError`]. The walk of a file: `syntax` reads it into a tree, `layout` recognises whose format it is and finds the
//! servers, `entry` reads one of them through `fields`, `expand` and `duration`, and hands the values to the builder that
//! embedders use too, so both pass the same checks.
//!
//! Invariants: a `ServerConfig` that exists is valid; values of `env` and of headers, tokens and expanded variables are
//! in no `Debug`, no `Display` and no problem; nothing here starts or connects to anything, or opens a file but the one
//! it was asked to read and those that it names: certificates, `envFile`, `${file:…}`.

mod builder;
mod check;
mod configuration;
mod document;
mod duration;
mod entry;
mod env_file;
mod error;
mod expand;
mod fields;
mod filters;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod glob;
mod host;
mod identity;
mod inputs;
mod layout;
mod limits;
mod locate;
mod nearest;
mod parse;
mod paths;
mod plain_secret;
mod problem;
mod report;
mod restart;
mod runner;
mod secret;
mod server;
mod settings;
mod syntax;
mod target;
mod view;

#[cfg(test)]
mod tests;

pub use builder::{InvalidServer, ServerBuilder};
pub use configuration::{Configuration, MAX_FILE_BYTES};
pub use duration::{InvalidDuration, parse_duration};
pub use error::ConfigError;
pub use host::Host;
pub use identity::Identity;
pub use locate::{Located, Origin, locate};
pub use nearest::nearest;
pub use problem::{Place, Problem, Severity};
pub use secret::Secret;
pub use server::{Isolation, Replay, ServerConfig};
pub use target::{CustomTarget, HttpKind, HttpTarget, StdioTarget, Target, Text};
pub use view::ToolView;
