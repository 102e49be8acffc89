//! The configuration files of MCP hosts and of Mainstay itself: read, edited so that every byte outside the changed
//! entries stays, and restored.
//!
//! [`text`] edits a text, [`file`](mod@file) replaces a file safely, [`host`] knows where each host keeps its files,
//! [`bridge`] points an entry at `mainstay connect` and back, [`import`] joins what the hosts have into Mainstay's
//! configuration, and [`servers`] adds, changes and removes a server of it.
//!
//! Values of entries may be secrets: no type that holds one has a `Debug`, and no error repeats one.

pub mod bridge;
pub mod file;
pub mod host;
pub mod import;
#[cfg(test)]
mod random;
pub mod servers;
pub mod text;
