//! What only the program itself can do.

use std::future::Future;
use std::pin::Pin;

use crate::api::{ApiProblem, DesiredState, EntryDocument, ReloadReport};

/// An answer that takes a while.
pub type Controlling<'a, T> = Pin<Box<dyn Future<Output = Result<T, ApiProblem>> + Send + 'a>>;

/// What the API asks of the program that serves it, beyond its servers. What a program does not implement is refused with
/// "not supported".
///
/// The future of a command runs to its end, even if the client that sent it is gone.
pub trait Controlled: Send + Sync + 'static {
    /// Reads the configuration again and applies it. An invalid one is refused, and the one before stays in force.
    fn reload(&self) -> Controlling<'_, ReloadReport> {
        refused("this program has no configuration file to read again")
    }

    /// Adds a server to the configuration file, and applies it.
    fn add(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        let _ = entry;
        refused("this program does not change its configuration")
    }

    /// Changes the entry of a server in the configuration file, and applies it: each key is set, or removed if it is null. All
    /// other keys stay.
    fn change(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        let _ = entry;
        refused("this program does not change its configuration")
    }

    /// Removes a server from the configuration file, and applies it.
    fn remove(&self, server: &str) -> Controlling<'_, ReloadReport> {
        let _ = server;
        refused("this program does not change its configuration")
    }

    /// Keeps what a person wants of a configured server, so that it outlives this run of the program. It is called before the
    /// server gets the command. If it fails, the server gets the command all the same, and the person gets the problem.
    fn remember(&self, server: &str, desired: DesiredState) -> Controlling<'_, ()> {
        let _ = (server, desired);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Keeps what a person wants of a server that a host brought, so that it outlives that server. The key is the one that its group
    /// was [attached](crate::ServerGroup::remembered_as) with.
    fn remember_of_host(&self, key: &str, desired: DesiredState) -> Controlling<'_, ()> {
        let _ = (key, desired);
        Box::pin(std::future::ready(Ok(())))
    }

    /// The configuration file, to show a person.
    fn configuration(&self) -> Option<String> {
        None
    }

    /// Whether that file does not exist.
    fn configuration_missing(&self) -> bool {
        false
    }

    /// Why that file, as it was last read, is not applied.
    fn configuration_problem(&self) -> Option<String> {
        None
    }
}

/// A program of which nothing can be asked but its servers.
impl Controlled for () {}

fn refused<'a, T: Send + 'a>(title: &str) -> Controlling<'a, T> {
    Box::pin(std::future::ready(Err(ApiProblem::not_supported(title))))
}
