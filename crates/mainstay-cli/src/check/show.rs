//! A check's report for a person.

use std::time::SystemTime;

use mainstay::gateway::PlainText;
use mainstay::transport::http::Challenge;
use mainstay_control::api::ServerCount;

use super::report::{CheckReport, ServerReport};
use crate::output::{Ink, Paint, Text, counted_up, labelled, plain, prose, span, text, wrapped};
use crate::startup::{Row, Standing, board, doing};

/// How wide the labels are, with the space behind them.
const LABELS: usize = 11;
/// How far everything is indented.
const INDENT: usize = 2;

/// The table, then each server in turn, then the sum.
pub(super) fn text(report: &CheckReport, paint: Paint, width: usize) -> Text {
    let mut text = Text::default();
    let rows: Vec<_> = report.servers.iter().map(row).collect();
    if !rows.is_empty() {
        for line in board(paint, &rows) {
            text.push_line(line);
        }
        text.push("\n");
    }
    let page = Page { paint, width };
    for server in report
        .servers
        .iter()
        .filter(|server| server.standing != Standing::Off)
    {
        text.push_line(page.server(server));
    }
    text.push(page.sum(report));
    text
}

/// One server alone.
pub(crate) fn server(report: &ServerReport, paint: Paint, width: usize) -> Text {
    Page { paint, width }.server(report)
}

fn row(server: &ServerReport) -> Row<'_> {
    Row {
        status: &server.status,
        took: server.took,
        tools: server
            .status
            .listed_at
            .is_some()
            .then_some(server.offers.tools.len()),
    }
}

struct Page {
    paint: Paint,
    width: usize,
}

impl Page {
    fn server(&self, server: &ServerReport) -> Text {
        let name = self.paint.bold(plain(&server.status.server));
        let beside = match server.standing {
            Standing::Up => self
                .paint
                .dim(server.title.as_deref().map(plain).unwrap_or_default()),
            Standing::Down => self.paint.ink(Ink::Red, "is down"),
            Standing::Starting => self.paint.ink(Ink::Yellow, "is not up yet"),
            Standing::Off => self.paint.dim("is disabled"),
        };
        let mut text = text!("{}  {}\n", name, beside);
        text.push(self.failure(server));
        text.push(self.offers(server));
        for diagnostic in &server.set_aside {
            text.push(self.prose("set aside", Ink::Yellow, diagnostic));
        }
        text
    }

    fn failure(&self, server: &ServerReport) -> Text {
        let mut text = Text::default();
        // Not wrapped: it is to be copied.
        text.push(self.verbatim("address", server.address.as_slice()));
        if let (Some(_), Some(transport), Some((era, _))) =
            (&server.address, server.status.transport, &server.status.protocol)
        {
            let spoken = text!("{}, {} era", transport, era.as_str());
            text.push(self.prose("transport", Ink::None, &spoken));
        }
        if server.is_up() {
            if let Some(error) = &server.status.listing_failure {
                text.push(self.prose("cause", Ink::Red, &error.message));
            }
        } else {
            if let Some(error) = &server.status.last_error {
                text.push(self.prose("cause", Ink::Red, &error.message));
                text.push(self.verbatim("PATH", error.searched.as_slice()));
                text.push(self.verbatim("stderr", &error.stderr));
                if let Some(challenge) = &error.challenge {
                    text.push(self.login(challenge));
                }
            }
            if let Some(doing) = doing(&server.status) {
                text.push(self.prose("doing", Ink::None, doing));
                text.push(self.verbatim("stderr", &server.stderr));
            }
            if let Some(at) = server.status.next_retry {
                let pause = at.duration_since(SystemTime::now()).unwrap_or_default();
                text.push(self.prose("next try", Ink::None, text!("in {}", span(pause))));
            }
        }
        if let Some(fix) = &server.fix {
            text.push(self.prose("remedy", Ink::None, &fix.advice));
            // Not wrapped: it is to be copied.
            text.push(self.verbatim("", fix.command.as_slice()));
        }
        text
    }

    /// Where a login would begin, and what it would ask for.
    fn login(&self, challenge: &Challenge) -> Text {
        let mut text = self.verbatim("login", challenge.resource_metadata.as_slice());
        if !challenge.scopes.is_empty() {
            text.push(self.prose("scopes", Ink::None, challenge.scopes.join(" ")));
        }
        text
    }

    fn offers(&self, server: &ServerReport) -> Text {
        let offers = &server.offers;
        let kinds = [
            ("tools", &offers.tools),
            ("prompts", &offers.prompts),
            ("resources", &offers.resources),
            ("templates", &offers.templates),
        ];
        let mut text = Text::default();
        for (label, names) in kinds {
            text.push(self.labelled(label, &self.names(names)));
        }
        if text.is_empty() && server.is_up() {
            return self.labelled("offers", &["nothing".into()]);
        }
        if let Some(since) = server.status.stale_since.filter(|_| !text.is_empty()) {
            let age = since.elapsed().unwrap_or_default();
            let stale = text!("listed {} ago", span(age));
            text.push(self.prose("stale", Ink::Yellow, &stale));
        }
        text
    }

    fn names(&self, names: &[String]) -> Vec<Text> {
        let last = names.len().saturating_sub(1);
        let words = names.iter().enumerate().map(|(n, name)| {
            let comma = if n == last { "" } else { "," };
            text!("{}{}", plain(name), comma)
        });
        wrapped(words, self.room())
    }

    fn prose(&self, label: &'static str, ink: Ink, text: impl AsRef<str>) -> Text {
        let lines: Vec<_> = prose(text, self.room())
            .iter()
            .map(|line| self.paint.ink(ink, line))
            .collect();
        self.labelled(label, &lines)
    }

    /// Lines from elsewhere, cleaned and not wrapped: they are to be copied, or their author aligned them.
    fn verbatim(&self, label: &'static str, lines: &[String]) -> Text {
        let lines: Vec<Text> = lines.iter().map(|line| PlainText::line(line).into()).collect();
        self.labelled(label, &lines)
    }

    fn labelled(&self, label: &'static str, lines: &[Text]) -> Text {
        labelled(self.paint, label, LABELS, lines)
    }

    fn room(&self) -> usize {
        self.width.saturating_sub(INDENT + LABELS)
    }

    fn sum(&self, report: &CheckReport) -> Text {
        let wanted: Vec<_> = report
            .servers
            .iter()
            .filter(|server| server.standing != Standing::Off)
            .collect();
        let counted = ServerCount {
            up: wanted.iter().filter(|server| server.is_up()).count(),
            wanted: wanted.len() + report.refused_wanted,
        };
        if counted.wanted + report.refused.len() == 0 {
            let none = self.paint.ink(Ink::Yellow, "there are no servers to start");
            return text!("{}\n", none);
        }
        let is_well = counted.up == counted.wanted && report.refused.is_empty();
        let ink = if is_well { Ink::Green } else { Ink::Red };
        let mut text = self.paint.ink(ink, counted_up(counted));
        let mut list = |what: &'static str, names: Vec<Text>| {
            if !names.is_empty() {
                text.push(text!("; {}: {}", what, Text::join(names, ", ")));
            }
        };
        let names_of = |standing| {
            let servers = wanted.iter().filter(|server| server.standing == standing);
            let names = servers.map(|server| {
                let required = if server.required { " (required)" } else { "" };
                text!("{}{}", plain(&server.status.server), required)
            });
            names.collect()
        };
        list("down", names_of(Standing::Down));
        list("not up yet", names_of(Standing::Starting));
        list(
            "disabled",
            report
                .servers
                .iter()
                .filter(|server| server.standing == Standing::Off)
                .map(|server| plain(&server.status.server))
                .collect(),
        );
        list(
            "not used",
            report.refused.iter().map(|name| plain(name)).collect(),
        );
        text.push("\n");
        text
    }
}
