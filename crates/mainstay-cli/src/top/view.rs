//! Draws what the model holds. Every text that comes from a server or the daemon is cleaned before it is drawn.

use std::time::Duration;

use mainstay_control::api::{CatalogDocument, DesiredState, Footing, ServerCount, ServerStatus, StateName};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{DaemonLink, TopModel, TopPage};
use crate::output::{Text, count, counted_up, cut, fine_span, plain, span, text, width};

/// Names of servers have at most this many columns.
const NAME_WIDTH: usize = 24;
/// The longest word of a state: `permanently failed`.
const STATE_WIDTH: usize = 18;
/// Below this height the server's details and the keys give way to the list.
const DETAIL_HEIGHT: u16 = 12;

/// A column of figures. The later ones give way first on a narrow terminal.
struct Column {
    title: &'static str,
    width: usize,
    figure: fn(&TopModel, &ServerStatus, u64) -> Text,
}

const COLUMNS: [Column; 6] = [
    Column {
        title: "RETRY",
        width: 7,
        figure: |_, server, now_ms| match server.next_retry_ms {
            Some(at) => match at.saturating_sub(now_ms).div_ceil(1_000) {
                seconds @ 0..60 => text!("{} s", seconds),
                seconds => span(Duration::from_secs(seconds)),
            },
            None => Text::default(),
        },
    },
    Column {
        title: "CALLS/S",
        width: 7,
        figure: |model, server, _| match model.rates.get(&server.name) {
            Some(rate) if *rate >= 10.0 => text!("{}", rate.round()),
            Some(rate) => text!("{}", (rate * 10.0).round() / 10.0),
            None => Text::default(),
        },
    },
    Column {
        title: "P50",
        width: 8,
        figure: |_, server, _| latency(server.calls.p50_us),
    },
    Column {
        title: "P95",
        width: 8,
        figure: |_, server, _| latency(server.calls.p95_us),
    },
    Column {
        title: "MEMORY",
        width: 8,
        figure: |_, server, _| match server.process.and_then(|process| process.resident_bytes) {
            Some(bytes) => text!("{} MB", bytes.div_ceil(1_000_000)),
            None => Text::default(),
        },
    },
    Column {
        title: "TOOLS",
        width: 5,
        figure: |_, server, _| match server.catalog {
            Some(catalog) => text!("{}", catalog.tools),
            None => Text::default(),
        },
    },
];

pub(super) fn draw(frame: &mut Frame<'_>, model: &TopModel, now_ms: u64, is_coloured: bool) {
    let area = frame.area();
    let (columns, rows) = (usize::from(area.width), usize::from(area.height));
    let canvas = Canvas { columns, is_coloured };
    let mut lines = vec![canvas.head(model)];
    let below = rows.saturating_sub(lines.len());
    match &model.page {
        TopPage::List => canvas.list(model, now_ms, below, area.height, &mut lines),
        TopPage::Help => lines.extend(HELP.iter().map(|line| Line::raw(*line))),
        TopPage::Stderr {
            server,
            lines: written,
            above_end,
        } => {
            lines.push(canvas.title(&text!("stderr of {}   (Esc: back)", plain(server))));
            let last = written.len().saturating_sub(*above_end);
            let first = last.saturating_sub(below.saturating_sub(1));
            if written.is_empty() {
                lines.push(Line::raw("nothing was written yet"));
            }
            for line in written.range(first..last) {
                lines.push(Line::raw(cut(line, columns).as_str().to_owned()));
            }
        }
        TopPage::Tools {
            server,
            catalog,
            first,
        } => {
            lines.push(canvas.title(&text!("tools of {}   (Esc: back)", plain(server))));
            match catalog {
                None => lines.push(Line::raw("…")),
                Some(Err(why)) => lines.push(Line::raw(cut(&plain(why), columns).as_str().to_owned())),
                Some(Ok(catalog)) => canvas.tools(catalog, *first, &mut lines),
            }
        }
    }
    lines.truncate(rows);
    frame.render_widget(Paragraph::new(lines), Rect::new(0, 0, area.width, area.height));
}

const HELP: [&str; 11] = [
    "up, down, k, j    select a server",
    "r                 restart it",
    "e                 enable it",
    "d                 disable it",
    "l                 follow its stderr",
    "t, Enter          see its tools",
    "PgUp, PgDn, g, G  scroll",
    "Esc               back to the list, or quit from there",
    "?, h              this help",
    "q, Ctrl-C         quit",
    "Quitting stops no server.",
];

/// How wide the view is, and whether it has colours.
struct Canvas {
    columns: usize,
    is_coloured: bool,
}

impl Canvas {
    fn ink(&self, colour: Color) -> Style {
        if self.is_coloured {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    fn title(&self, text: &Text) -> Line<'static> {
        let text = cut(text, self.columns).as_str().to_owned();
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }

    /// How the daemon is, and how many servers are up.
    fn head(&self, model: &TopModel) -> Line<'static> {
        let counted = ServerCount::of(model.servers.iter().map(Footing::of));
        let off = model.servers.len() - counted.wanted;
        let disabled = match off {
            0 => Text::default(),
            _ => text!(", {} disabled", off),
        };
        let (text, style) = match &model.link {
            DaemonLink::Connecting => ("mainstay top   looking for the daemon …".into(), Style::new()),
            DaemonLink::Live => (
                text!("mainstay top   {}{}", counted_up(counted), disabled),
                self.ink(Color::Green),
            ),
            DaemonLink::Gone(why) => (
                text!(
                    "mainstay top   no daemon answers; looking again each second   {}",
                    plain(why)
                ),
                self.ink(Color::Red),
            ),
        };
        Line::styled(
            cut(&text, self.columns).as_str().to_owned(),
            style.add_modifier(Modifier::BOLD),
        )
    }

    fn list(&self, model: &TopModel, now_ms: u64, below: usize, height: u16, lines: &mut Vec<Line<'static>>) {
        let shows_detail = height >= DETAIL_HEIGHT;
        let reserved = if shows_detail { 5 } else { 1 };
        let names = model.servers.iter().map(|server| width(plain(&server.name)));
        let name_width = names.max().unwrap_or(0).clamp(6, NAME_WIDTH);
        let shown = self.fitting(name_width);
        lines.push(self.header(name_width, shown));
        let rows = below.saturating_sub(1 + reserved).max(1);
        // The selected server is always in sight.
        let first = (model.selected + 1).saturating_sub(rows);
        for (n, server) in model.servers.iter().enumerate().skip(first).take(rows) {
            lines.push(self.row(model, server, now_ms, name_width, shown, n == model.selected));
        }
        if model.servers.is_empty() && matches!(model.link, DaemonLink::Live) {
            lines.push(Line::raw("the daemon has no servers"));
        }
        let empty = (below + 1).saturating_sub(lines.len() + reserved);
        lines.extend(std::iter::repeat_n(Line::raw(""), empty));
        if shows_detail {
            self.detail(model, now_ms, lines);
        }
        let keys = "r restart  e enable  d disable  l stderr  t tools  ? help  q quit";
        let foot = if model.notice.is_empty() {
            Text::from(keys)
        } else {
            model.notice.clone()
        };
        let style = Style::new().add_modifier(Modifier::DIM);
        lines.push(Line::styled(cut(&foot, self.columns).as_str().to_owned(), style));
    }

    /// How many columns of figures fit.
    fn fitting(&self, name_width: usize) -> usize {
        let mut used = 2 + name_width + 1 + STATE_WIDTH;
        let fits = COLUMNS.iter().take_while(|column| {
            used += 1 + column.width;
            used <= self.columns
        });
        fits.count()
    }

    fn header(&self, name_width: usize, shown: usize) -> Line<'static> {
        let mut text = format!("  {:name_width$} {:STATE_WIDTH$}", "SERVER", "STATE");
        for column in &COLUMNS[..shown] {
            let width = column.width;
            text += &format!(" {:>width$}", column.title);
        }
        let text = text.chars().take(self.columns).collect::<String>();
        Line::styled(text, Style::new().add_modifier(Modifier::DIM))
    }

    fn row(
        &self,
        model: &TopModel,
        server: &ServerStatus,
        now_ms: u64,
        name_width: usize,
        shown: usize,
        is_selected: bool,
    ) -> Line<'static> {
        let (word, colour) = state(server);
        let mark = if is_selected { "> " } else { "  " };
        let mut spans = vec![
            Span::raw(mark),
            Span::raw(padded(&plain(&server.name), name_width)),
            Span::raw(" "),
            Span::styled(padded(&word, STATE_WIDTH), self.ink(colour)),
        ];
        for column in &COLUMNS[..shown] {
            let figure = cut(&(column.figure)(model, server, now_ms), column.width);
            let pad = column.width - width(&figure);
            spans.push(Span::raw(format!(" {}{}", " ".repeat(pad), figure)));
        }
        let style = if is_selected {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        Line::from(spans).style(style)
    }

    /// What the selected server is, and what went wrong with it.
    fn detail(&self, model: &TopModel, now_ms: u64, lines: &mut Vec<Line<'static>>) {
        let mut said = [Text::default(), Text::default(), Text::default(), Text::default()];
        if let Some(server) = model.selected() {
            let since = span(Duration::from_millis(now_ms.saturating_sub(server.since_ms)));
            let name = plain(&server.name);
            said[0] = text!(
                "{}: {} for {}, {} started, {} in flight, {} waiting",
                name,
                state(server).0,
                since,
                count(usize::try_from(server.starts).unwrap_or(usize::MAX), "time"),
                server.calls.in_flight,
                server.calls.waiting
            );
            said[1] = plain(server.target.as_deref().unwrap_or_default());
            if let Some(failure) = server.last_failure.as_ref() {
                said[2] = text!("last failure: {}", plain(&failure.message));
                said[3] = plain(failure.stderr_reason.as_deref().unwrap_or_default());
            }
        }
        for line in &said {
            lines.push(Line::raw(cut(line, self.columns).as_str().to_owned()));
        }
    }

    fn tools(&self, catalog: &CatalogDocument, first: usize, lines: &mut Vec<Line<'static>>) {
        if catalog.tools.is_empty() {
            lines.push(Line::raw("it offers no tools"));
        }
        for tool in catalog.tools.iter().skip(first) {
            let about = tool
                .definition
                .get("description")
                .and_then(|about| about.as_str());
            let about = crate::output::first_line(about.unwrap_or_default());
            let name = plain(&tool.public_name);
            let style = self.ink(Color::Cyan).add_modifier(Modifier::BOLD);
            let left = self.columns.saturating_sub(width(&name) + 2);
            lines.push(Line::from(vec![
                Span::styled(cut(&name, self.columns).as_str().to_owned(), style),
                Span::raw(format!("  {}", cut(&about, left))),
            ]));
        }
    }
}

/// The state in words, and its colour.
fn state(server: &ServerStatus) -> (Text, Color) {
    match server.state {
        StateName::Connected => ("connected".into(), Color::Green),
        StateName::Connecting => ("connecting".into(), Color::Yellow),
        StateName::Reconnecting => (
            match server.attempt <= server.budget {
                true => text!("reconnecting {}/{}", server.attempt, server.budget),
                false => text!("reconnecting {}", server.attempt),
            },
            Color::Yellow,
        ),
        StateName::Disabling => ("disabling".into(), Color::Yellow),
        StateName::Disabled => ("disabled".into(), Color::DarkGray),
        StateName::Disconnected => match server.reason.as_deref() {
            Some("idle") => ("idle".into(), Color::DarkGray),
            Some("auth_required") => ("login needed".into(), Color::Red),
            Some(_) | None => ("disconnected".into(), Color::Red),
        },
        StateName::PermanentlyFailed => ("permanently failed".into(), Color::Red),
        StateName::Unknown => match server.desired {
            DesiredState::Enabled => ("unknown".into(), Color::Yellow),
            DesiredState::Disabled => ("unknown".into(), Color::DarkGray),
        },
    }
}

fn latency(micros: Option<u64>) -> Text {
    micros
        .map(|micros| fine_span(Duration::from_micros(micros)))
        .unwrap_or_default()
}

/// The text in exactly so many columns.
fn padded(text: &Text, columns: usize) -> String {
    let text = cut(text, columns);
    let pad = columns - width(&text);
    format!("{}{}", text, " ".repeat(pad))
}

#[cfg(test)]
mod tests;
