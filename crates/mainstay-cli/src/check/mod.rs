//! `mainstay check`: starts every server, shows what each offers and what is wrong with the rest.

mod configured;
mod fix;
mod report;
mod show;

use mainstay::Status;

use crate::args::{CheckArgs, Common};
use crate::exit::{Done, Exit};
use crate::json;
use crate::load::{configured, servers};
use crate::output::{Screen, Text};
use crate::run::with_fleet;
use crate::startup::{Progress, Startup};

pub(crate) use report::{CheckReport, ServerReport};
pub(crate) use show::server as show_server;

pub(crate) fn run(check: &CheckArgs, common: &Common, screen: &Screen) -> Done {
    let wanted = &check.servers;
    if check.no_start {
        let mut setup = configured(&wanted.adhoc, common, screen)?;
        setup.keep(&wanted.server)?;
        return configured::run(&setup, wanted.json, screen);
    }
    let mut setup = servers(&wanted.adhoc, common, screen)?;
    setup.keep(&wanted.server)?;
    with_fleet(&setup, screen, async |fleet| {
        let startup = Startup::of(fleet);
        // With --json there is no output before the document.
        let mut progress = Progress::new(screen, !wanted.json);
        let show = |statuses: &[Status]| progress.show(&startup, fleet, statuses);
        let statuses = match &setup.daemon {
            None => startup.settle(wanted.timeout, show).await,
            // Its servers are shown: a bridge counts failures of its own.
            Some(daemon) => {
                daemon.wait(&mut startup.statuses(), wanted.timeout, show).await?;
                let mut statuses = startup.settle(wanted.timeout, |_| {}).await;
                daemon.settle(&mut statuses, wanted.timeout).await?;
                statuses
            }
        };
        drop(progress);
        let mut report = CheckReport::new(&setup, &startup, fleet, statuses);
        if !wanted.server.is_empty() {
            // Only servers that are used can be named.
            report.refused_wanted = 0;
        }
        let text = if wanted.json {
            Text::document(&json::CheckDocument::of(&setup, &report))
        } else {
            show::text(&report, screen.out, screen.width)
        };
        screen.print(text)?;
        Ok(report.exit())
    })
}

impl CheckReport {
    /// Errors in the configuration count even if all servers are up.
    pub(crate) fn exit(&self) -> Exit {
        if !self.refused.is_empty() {
            Exit::Usage
        } else if self
            .servers
            .iter()
            .any(|server| server.counts && !server.is_listed())
        {
            Exit::Failed
        } else {
            Exit::Success
        }
    }
}
