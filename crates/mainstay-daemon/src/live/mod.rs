//! A configuration that follows its file while the program runs.
//!
//! One task owns it. A changed file, SIGHUP and a request to reload all lead to the same steps: read the file, refuse it or
//! apply the difference through the gateway, and report. Servers that did not change keep their connections; a file that is
//! refused changes nothing.
//!
//! `links` finds the directories in which a path can change its meaning, `watch` watches those, and `reading` reads the file
//! on a thread that may block. `switches` keeps what a person enabled and disabled at run time; it counts more than the file
//! until the file says the same. `host_switches` does that for the servers that hosts bring. `environment` says what helps if a
//! variable is not set.

mod controlled;
mod environment;
mod host_switches;
mod links;
mod reading;
mod reload;
mod start;
mod switches;
mod task;
#[cfg(test)]
mod tests;
mod watch;

pub use controlled::ReloadJournal;
pub use environment::{DaemonOrigin, EnvironmentOwner};
pub(crate) use host_switches::{HostSwitches, key};
pub use reload::{ReloadError, Reloaded};
pub use start::{LiveConfiguration, LiveEvent, LiveReport, LiveStart, ReloadTrigger};
pub use switches::{SwitchError, Switched, SwitchesError, state_directory};
pub use watch::WatchError;
