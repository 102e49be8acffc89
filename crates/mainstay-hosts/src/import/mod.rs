//! What the hosts of this machine have, and what of it Mainstay's own configuration takes over.
//!
//! [`HostFile::read`] reads a host's file with the library's reader. An entry that starts `mainstay connect` is seen as
//! the server behind it, so that an import gives the same before and after a rewriting. [`ImportPlan`] joins equal servers
//! of all hosts into one and keeps those apart that differ under one name.

mod entry;
mod host_file;
mod plan;
mod variables;

#[cfg(test)]
mod tests;

pub use host_file::{HostFile, HostReadError, HostServer, Readable, Rewritten};
pub use plan::{ImportPlan, LeftServer, PlannedServer};
pub(crate) use plan::{group_of, read};
