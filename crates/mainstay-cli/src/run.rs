//! Supervises the servers for as long as a command lasts, and leaves nothing behind.
//!
//! The first SIGINT or SIGTERM ends the command and closes the fleet; a second one ends the program at once, and then
//! the library's guardian ends what is left of the servers.

use std::collections::BTreeSet;

use mainstay::fleet::CloseReport;
use mainstay::{Fleet, FleetBuilder};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{CommandFailure, Done, Exit};
use crate::load::Setup;
use crate::logins;
use crate::output::{Screen, Text, plain, text};

/// Starts the servers, does the work, and closes them.
pub(crate) fn with_fleet(setup: &Setup, screen: &Screen, work: impl AsyncFnOnce(&Fleet) -> Done) -> Done {
    with_fleet_or(setup, screen, work, Ok)
}

/// The same; if a signal ends the work early, `interrupted` makes the result.
pub(crate) fn with_fleet_or(
    setup: &Setup,
    screen: &Screen,
    work: impl AsyncFnOnce(&Fleet) -> Done,
    interrupted: impl FnOnce(Exit) -> Done,
) -> Done {
    supervised(setup, screen, |builder| builder, work, interrupted)
}

/// The same with a fleet that is made in another way.
pub(crate) fn with_fleet_made(
    setup: &Setup,
    screen: &Screen,
    make: impl FnOnce(FleetBuilder) -> FleetBuilder,
    work: impl AsyncFnOnce(&Fleet) -> Done,
) -> Done {
    supervised(setup, screen, make, work, Ok)
}

fn supervised(
    setup: &Setup,
    screen: &Screen,
    make: impl FnOnce(FleetBuilder) -> FleetBuilder,
    work: impl AsyncFnOnce(&Fleet) -> Done,
    interrupted: impl FnOnce(Exit) -> Done,
) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    let done = runtime.block_on(async {
        // Before anything is started, so that a signal during the start ends it.
        let signals = Signals::listen()?;
        let mut builder = make(Fleet::builder().credential_source(logins::source()));
        if let Some(store) = &setup.store {
            builder = builder.store(store);
        }
        let fleet = builder.start(setup.servers.iter().cloned());
        let close = async { say_late(&fleet.close(setup.stop_within).await, screen) };
        let note = match setup.daemon {
            Some(_) => "interrupted; the daemon keeps the servers",
            None => "stopping the servers; interrupt once more to force",
        };
        let interrupted = |exit| {
            screen.note(note);
            interrupted(exit)
        };
        until_signalled(signals, work(&fleet), interrupted, close).await
    });
    runtime.block_on(logins::finish());
    // The fleet is closed: tasks that still run are not needed.
    runtime.shutdown_background();
    done
}

/// Works until it is done or a signal comes, and closes the servers.
async fn until_signalled(
    mut signals: Signals,
    work: impl Future<Output = Done>,
    interrupted: impl FnOnce(Exit) -> Done,
    close: impl Future<Output = ()>,
) -> Done {
    let done = tokio::select! {
        done = work => done,
        exit = signals.next() => interrupted(exit),
    };
    tokio::select! {
        () = close => done,
        exit = signals.next() => Ok(exit),
    }
}

/// Names the servers that were killed: they may not have saved their work.
pub(crate) fn say_late(report: &CloseReport, screen: &Screen) {
    let names: BTreeSet<&str> = report.killed().map(|closed| closed.server.as_str()).collect();
    if !names.is_empty() {
        let names = Text::join(names.into_iter().map(plain), ", ");
        screen.note(text!(
            "killed: {} did not end in time (--stop-within gives servers longer)",
            names
        ));
    }
}

/// The signals that end the program.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, CommandFailure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(CommandFailure::failed)?,
            terminate: signal(SignalKind::terminate()).map_err(CommandFailure::failed)?,
        })
    }

    /// The next signal that ends the program.
    pub(crate) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}
