//! A check's report for a person.

use std::time::SystemTime;

use mainstay::transport::http::Challenge;

use super::report::{Report, ServerReport};
use crate::output::{Ink, Paint, count, labelled, plain, prose, span, wrapped};
use crate::startup::{Row, Standing, board, doing};

/// How wide the labels are, with the space behind them.
const LABELS: usize = 11;
/// How far everything is indented.
const INDENT: usize = 2;

/// The table, then each server in turn, then the sum.
pub(super) fn text(report: &Report, paint: Paint, width: usize) -> String {
    let mut text = String::new();
    let rows: Vec<_> = report.servers.iter().map(row).collect();
    if !rows.is_empty() {
        for line in board(paint, &rows) {
            text.push_str(&line);
            text.push('\n');
        }
        text.push('\n');
    }
    let page = Page { paint, width };
    for server in report
        .servers
        .iter()
        .filter(|server| server.standing != Standing::Off)
    {
        text.push_str(&page.server(server));
        text.push('\n');
    }
    text.push_str(&page.sum(report));
    text
}

/// One server alone.
pub(crate) fn server(report: &ServerReport, paint: Paint, width: usize) -> String {
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
    fn server(&self, server: &ServerReport) -> String {
        let name = self.paint.bold(&plain(&server.status.server));
        let beside = match server.standing {
            Standing::Up => self
                .paint
                .dim(&server.title.as_deref().map(plain).unwrap_or_default()),
            Standing::Down => self.paint.ink(Ink::Red, "is down"),
            Standing::Starting => self.paint.ink(Ink::Yellow, "is not up yet"),
            Standing::Off => self.paint.dim("is disabled"),
        };
        let mut text = format!("{name}  {beside}\n");
        text.push_str(&self.trouble(server));
        text.push_str(&self.offers(server));
        for diagnostic in &server.set_aside {
            text.push_str(&self.prose("set aside", Ink::Yellow, diagnostic));
        }
        text
    }

    fn trouble(&self, server: &ServerReport) -> String {
        let mut text = String::new();
        // Not wrapped: it is to be copied.
        text.push_str(&self.labelled("address", server.address.as_slice()));
        if let (Some(_), Some(transport), Some((era, _))) =
            (&server.address, server.status.transport, &server.status.protocol)
        {
            let spoken = format!("{transport}, {} era", era.as_str());
            text.push_str(&self.prose("transport", Ink::None, &spoken));
        }
        if !server.is_up() {
            if let Some(error) = &server.status.last_error {
                text.push_str(&self.prose("cause", Ink::Red, &error.message));
                text.push_str(&self.labelled("stderr", &error.stderr));
                if let Some(challenge) = &error.challenge {
                    text.push_str(&self.login(challenge));
                }
            }
            if let Some(doing) = doing(&server.status) {
                text.push_str(&self.prose("doing", Ink::None, &doing));
                text.push_str(&self.labelled("stderr", &server.stderr));
            }
            if let Some(at) = server.status.next_retry {
                let pause = at.duration_since(SystemTime::now()).unwrap_or_default();
                text.push_str(&self.prose("next try", Ink::None, &format!("in {}", span(pause))));
            }
        }
        if let Some(mend) = &server.mend {
            text.push_str(&self.prose("mend", Ink::None, &mend.advice));
            // Not wrapped: it is to be copied.
            text.push_str(&self.labelled("", mend.command.as_slice()));
        }
        text
    }

    /// Where a login would begin, and what it would ask for.
    fn login(&self, challenge: &Challenge) -> String {
        let metadata = challenge.resource_metadata.as_deref().map(plain);
        let mut text = self.labelled("login", metadata.as_slice());
        if !challenge.scopes.is_empty() {
            text.push_str(&self.prose("scopes", Ink::None, &challenge.scopes.join(" ")));
        }
        text
    }

    fn offers(&self, server: &ServerReport) -> String {
        let offers = &server.offers;
        let kinds = [
            ("tools", &offers.tools),
            ("prompts", &offers.prompts),
            ("resources", &offers.resources),
            ("templates", &offers.templates),
        ];
        let mut text = String::new();
        for (label, names) in kinds {
            text.push_str(&self.labelled(label, &self.names(names)));
        }
        if text.is_empty() && server.is_up() {
            return self.labelled("offers", &["nothing".to_owned()]);
        }
        if let Some(since) = server.status.stale_since.filter(|_| !text.is_empty()) {
            let age = since.elapsed().unwrap_or_default();
            let stale = format!("listed {} ago", span(age));
            text.push_str(&self.prose("stale", Ink::Yellow, &stale));
        }
        text
    }

    fn names(&self, names: &[String]) -> Vec<String> {
        let mut words: Vec<String> = names.iter().map(|name| format!("{},", plain(name))).collect();
        if let Some(last) = words.last_mut() {
            last.pop();
        }
        wrapped(words.iter().map(String::as_str), self.room())
    }

    fn prose(&self, label: &str, ink: Ink, text: &str) -> String {
        let lines: Vec<_> = prose(text, self.room())
            .iter()
            .map(|line| self.paint.ink(ink, line))
            .collect();
        self.labelled(label, &lines)
    }

    fn labelled(&self, label: &str, lines: &[String]) -> String {
        labelled(self.paint, label, LABELS, lines)
    }

    fn room(&self) -> usize {
        self.width.saturating_sub(INDENT + LABELS)
    }

    fn sum(&self, report: &Report) -> String {
        let wanted: Vec<_> = report
            .servers
            .iter()
            .filter(|server| server.standing != Standing::Off)
            .collect();
        let up = wanted.iter().filter(|server| server.is_up()).count();
        let all = wanted.len() + report.refused.len();
        if all == 0 {
            return format!(
                "{}\n",
                self.paint.ink(Ink::Yellow, "there are no servers to start")
            );
        }
        let ink = if up == all { Ink::Green } else { Ink::Red };
        let mut text = self
            .paint
            .ink(ink, &format!("{up} of {} up", count(all, "server")));
        let mut list = |what: &str, names: Vec<String>| {
            if !names.is_empty() {
                text.push_str(&format!("; {what}: {}", names.join(", ")));
            }
        };
        let down = wanted.iter().filter(|server| !server.is_up());
        let down = down.map(|server| {
            let required = if server.required { " (required)" } else { "" };
            plain(&server.status.server) + required
        });
        list("down", down.collect());
        list(
            "not used",
            report.refused.iter().map(|name| plain(name)).collect(),
        );
        text + "\n"
    }
}
