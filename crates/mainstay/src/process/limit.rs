//! How many files, pipes and sockets this process may have open at once.
//!
//! A server takes four or five. Systems start programs with a low limit that they may raise themselves (the soft limit, mostly
//! 1,024), because programs that use `select` cannot bear more. So this program raises its own, and gives each child that it
//! starts the limit that it was given itself.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

/// What this process was started with, once it has raised its limit.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// For systems that report no limit; they accept at most this.
const FALLBACK_LIMIT: u64 = 10_240;

/// Lets this process open as many files, pipes and sockets as the system allows it: raises the soft limit of descriptors to the
/// hard one, and returns what it is then. The servers that are started later keep the limit that this process had before.
///
/// A program calls it once, at its start. Each server takes four or five descriptors, and each client of a gateway one.
///
/// # Errors
/// When the system refuses; the limit is then what it was.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        ..before
    };
    if before == raised {
        return Ok(before.current);
    }
    let fallback = Rlimit {
        current: Some(FALLBACK_LIMIT),
        ..before
    };
    setrlimit(Resource::Nofile, raised)
        .or_else(|error| match before.current {
            Some(current) if current < FALLBACK_LIMIT => setrlimit(Resource::Nofile, fallback),
            Some(_) | None => Err(error),
        })
        .map_err(io::Error::from)?;
    // A second call finds the limit raised, and must not take that for the original.
    let _ = ORIGINAL.set(before);
    Ok(getrlimit(Resource::Nofile).current)
}

/// Gives a child that was just started the limit that this process was started with. Its program is loaded by then and has
/// hardly begun; the other way, between `fork` and `exec`, takes `unsafe`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn restore(child: Pid) {
    if let Some(original) = ORIGINAL.get() {
        // A child that changed its user is not ours to limit, and keeps the higher limit.
        let _ = rustix::process::prlimit(Some(child), Resource::Nofile, *original);
    }
}

/// Only Linux limits another process.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn restore(_: Pid) {}
