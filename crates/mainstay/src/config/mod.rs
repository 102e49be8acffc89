//! What a person configures: the servers of a configuration file, and the same settings from Rust.
//!
//! [`ServerConfig::stdio`], [`ServerConfig::http`] and [`ServerConfig::custom`] start a [`ServerBuilder`], whose `build` checks
//! the server. A file is found by [`locate`] and read by [`Configuration::load`] into a list of [`ServerConfig`]s and a
//! list of [`Problem`]s. A mistake in one server costs that server alone; a [`ConfigError`] means that the file as a
//! whole cannot be read. Files need the cargo feature `config-file`.
//!
//! Invariants: a `ServerConfig` that exists is valid. Values of `env`, headers, tokens and expanded variables are in no
//! `Debug`, no `Display` and no problem. Nothing here starts a process or opens a connection, and the only files it opens
//! are the one it was asked to read and those named in it: certificates, `envFile`, `${file:…}`.

mod builder;
mod check;
mod duration;
#[cfg(feature = "config-file")]
pub(crate) mod file;
mod identity;
mod nearest;
mod plain_secret;
mod problem;
mod server;
mod target;
mod tool_view;

pub use builder::{InvalidServer, ServerBuilder};
pub use duration::{InvalidDuration, parse_duration};
#[cfg(feature = "config-file")]
pub use file::source;
#[cfg(feature = "config-file")]
pub use file::{ConfigError, ConfigOrigin, Configuration, Host, Located, json_schema, locate};
pub use identity::ServerIdentity;
pub use nearest::nearest;
pub use problem::{Position, Problem, Severity};
pub use server::{Isolation, Replay, ServerConfig};
pub use target::{
    ConfigText, CustomTarget, HttpKind, HttpTarget, OAuthConfig, OAuthGrant, OAuthResource, OAuthSetting,
    Secret, StdioTarget, Target, UnusableTarget,
};
pub use tool_view::ToolView;
