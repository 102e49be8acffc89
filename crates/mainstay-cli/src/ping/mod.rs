//! `mainstay ping`: whether a server is alive, and how long it takes to say so.

mod measured;

use std::time::Duration;

use anyhow::anyhow;
use mainstay::{CallError, CallErrorKind, Fleet, Server};
use tokio::time::sleep;

use crate::args::{Common, PingArgs};
use crate::check::{CheckReport, ServerReport, show_server};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json;
use crate::load::{Setup, servers};
use crate::output::{Ink, Screen, Text, fine_span, labelled, plain, span, text};
use crate::reach;
use crate::run::with_fleet;
use crate::startup::{Progress, Startup};

pub(crate) use measured::Measured;

/// How wide the labels are, with the space behind them.
const LABELS: usize = 11;

pub(crate) fn run(ping: &PingArgs, common: &Common, screen: &Screen) -> Done {
    let setup = setup(ping, common, screen)?;
    let config = setup.servers.first();
    let name = config.map(|config| config.name().to_owned()).unwrap_or_default();
    with_fleet(&setup, screen, async |fleet| {
        let server = fleet
            .server(&name)
            .ok_or_else(|| CommandFailure::failed(anyhow!("the server is gone")))?;
        let pinging = Pinging {
            ping,
            screen,
            setup: &setup,
            fleet,
        };
        pinging.measure(&server).await
    })
}

/// The server of the configuration that is meant, or one of which nothing but its address is known.
fn setup(ping: &PingArgs, common: &Common, screen: &Screen) -> Result<Setup, CommandFailure> {
    let mut adhoc = ping.adhoc.clone();
    let named = match &ping.server {
        Some(url) if url.contains("://") => {
            adhoc.server.url = Some(url.clone());
            None
        }
        other => other.clone(),
    };
    let mut setup = servers(&adhoc, common, screen)?;
    setup.keep(named.as_slice())?;
    Ok(setup)
}

struct Pinging<'a> {
    ping: &'a PingArgs,
    screen: &'a Screen,
    setup: &'a Setup,
    fleet: &'a Fleet,
}

impl Pinging<'_> {
    async fn measure(&self, server: &Server) -> Done {
        let startup = Startup::of(self.fleet);
        let mut measured = Measured {
            asked: self.ping.count,
            ..Measured::default()
        };
        let report = self.come_up(&startup).await?;
        if !report.is_up() {
            self.print(|| show_server(&report, self.screen.out, self.screen.width))?;
            return self.verdict(&report, &measured);
        }
        measured.connected = Some(report.took);
        self.print(|| self.heading(&report))?;
        for number in 1..=self.ping.count {
            if number > 1 {
                sleep(self.ping.interval).await;
            }
            let asked = match &self.setup.daemon {
                Some(daemon) => daemon.ping(server.name(), self.ping.timeout).await,
                None => {
                    let pong = server.ping(self.ping.timeout).await;
                    pong.map(|pong| pong.round_trip)
                        .map_err(|error| no_answer(&error, self.ping.timeout))
                }
            };
            self.print(|| self.line(number, &asked))?;
            measured.pings.push(asked);
        }
        self.print(|| self.sum(&measured))?;
        // What became of it meanwhile is what a script wants to know.
        let mut statuses = vec![server.status()];
        if let Some(daemon) = &self.setup.daemon {
            daemon.settle(&mut statuses, Duration::ZERO).await?;
        }
        let report = self.report(&startup, statuses)?;
        self.verdict(&report, &measured)
    }

    async fn come_up(&self, startup: &Startup) -> Result<ServerReport, CommandFailure> {
        let mut progress = Progress::new(self.screen, false);
        let mut statuses = startup
            .settle(self.ping.timeout, |statuses| {
                progress.show(startup, self.fleet, statuses);
            })
            .await;
        drop(progress);
        if let Some(daemon) = &self.setup.daemon {
            daemon.settle(&mut statuses, self.ping.timeout).await?;
        }
        self.report(startup, statuses)
    }

    fn report(
        &self,
        startup: &Startup,
        statuses: Vec<mainstay::Status>,
    ) -> Result<ServerReport, CommandFailure> {
        let report = CheckReport::new(self.setup, startup, self.fleet, statuses);
        let server = report.servers.into_iter().next();
        server.ok_or_else(|| CommandFailure::failed(anyhow!("the server is gone")))
    }

    /// Prints what a person reads, unless a script does.
    fn print(&self, text: impl FnOnce() -> Text) -> Result<(), CommandFailure> {
        if self.ping.json {
            return Ok(());
        }
        self.screen.print(text())
    }

    fn verdict(&self, report: &ServerReport, measured: &Measured) -> Done {
        if self.ping.json {
            let document = json::PingDocument::of(report, measured);
            self.screen.print(Text::document(&document))?;
        }
        Ok(if measured.is_alive() {
            Exit::Success
        } else {
            Exit::Failed
        })
    }

    fn heading(&self, report: &ServerReport) -> Text {
        let config = self.setup.servers.first();
        let place = config.and_then(|config| reach::address(config).or_else(|| reach::command_line(config)));
        let name = self.screen.out.bold(plain(&report.status.server));
        let place = self.screen.out.dim(plain(&place.unwrap_or_default()));
        let mut how = text!("in {}", span(report.took));
        if let Some(transport) = report.status.transport {
            how.push(text!(", {}", transport));
        }
        if let Some((era, version)) = &report.status.protocol {
            how.push(text!(", {} ({} era)", plain(version), era.as_str()));
        }
        text!("{}  {}\n{}", name, place, self.labelled("connected", how))
    }

    fn line(&self, number: u32, asked: &Result<Duration, String>) -> Text {
        let said = match asked {
            Ok(time) => fine_span(*time),
            Err(why) => self.screen.out.ink(Ink::Red, plain(why)),
        };
        self.labelled(text!("{}", number), said)
    }

    fn sum(&self, measured: &Measured) -> Text {
        let ink = if measured.is_alive() { Ink::Green } else { Ink::Red };
        let counted = text!("{} of {}", measured.answered(), measured.asked);
        let mut said = self.screen.out.ink(ink, counted);
        if let Some(figures) = measured.figures() {
            let [min, median, max] = [figures.min, figures.median, figures.max].map(fine_span);
            said.push(text!(": min {}, median {}, max {}", min, median, max));
        }
        self.labelled("answered", said)
    }

    fn labelled(&self, label: impl Into<Text>, said: Text) -> Text {
        labelled(self.screen.out, label, LABELS, &[said])
    }
}

/// Why there was no answer. A question is no call: that it may have run is of no interest.
fn no_answer(error: &CallError, limit: Duration) -> String {
    match error.kind() {
        CallErrorKind::TimedOut { .. } => format!("no answer within {}", span(limit)),
        CallErrorKind::Lost { reason, .. } => format!("the connection was lost: {reason}"),
        CallErrorKind::NotCarried { reason } => reason.clone(),
        _other => error.to_string(),
    }
}
