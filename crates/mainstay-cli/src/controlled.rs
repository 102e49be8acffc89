//! The configuration of a program that serves, for the control API.

use std::sync::OnceLock;

use mainstay_control::api::{ApiProblem, DesiredState, EntryDocument, ProblemKind, ReloadReport};
use mainstay_control::{Controlled, Controlling};
use mainstay_daemon::live::LiveConfiguration;

/// The configuration, once the gateway runs. The API stands at the door before that; what needs the configuration is refused until
/// then.
#[derive(Default)]
pub(crate) struct LiveControl(OnceLock<LiveConfiguration>);

impl LiveControl {
    /// Lets the API use this configuration.
    pub(crate) fn set(&self, live: LiveConfiguration) {
        // A program follows one configuration.
        let _ = self.0.set(live);
    }

    fn ask<'a, T: Send + 'a>(
        &'a self,
        ask: impl FnOnce(&'a LiveConfiguration) -> Controlling<'a, T>,
    ) -> Controlling<'a, T> {
        match self.0.get() {
            Some(live) => ask(live),
            None => {
                let problem = ApiProblem::new(ProblemKind::Conflict, "the program is still starting");
                let problem = problem.remedy("try again when its required servers are up");
                Box::pin(std::future::ready(Err(problem)))
            }
        }
    }
}

impl Controlled for LiveControl {
    fn reload(&self) -> Controlling<'_, ReloadReport> {
        self.ask(Controlled::reload)
    }

    fn add(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        self.ask(|live| live.add(entry))
    }

    fn change(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        self.ask(|live| live.change(entry))
    }

    fn remove(&self, server: &str) -> Controlling<'_, ReloadReport> {
        let server = server.to_owned();
        Box::pin(async move { self.ask(|live| live.remove(&server)).await })
    }

    fn remember(&self, server: &str, desired: DesiredState) -> Controlling<'_, ()> {
        let server = server.to_owned();
        Box::pin(async move { self.ask(|live| live.remember(&server, desired)).await })
    }

    fn configuration(&self) -> Option<String> {
        self.0.get()?.configuration()
    }

    fn configuration_missing(&self) -> bool {
        self.0.get().is_some_and(Controlled::configuration_missing)
    }

    fn configuration_problem(&self) -> Option<String> {
        self.0.get()?.configuration_problem()
    }
}
