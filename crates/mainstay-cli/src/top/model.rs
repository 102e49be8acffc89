//! What the view shows, and what a key does. It reads no clock and does no IO.

use std::collections::{HashMap, VecDeque};

use mainstay::gateway::PlainText;
use mainstay_control::api::{
    CatalogDocument, EventDetail, EventRecord, Footing, ServerList, ServerStatus, StateName,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::{FeedMessage, TopCommand};
use crate::output::{Text, plain, text};

/// How many lines of stderr are kept.
const STDERR_LIMIT: usize = 1_000;

/// What is seen.
pub(super) struct TopModel {
    pub(super) link: DaemonLink,
    pub(super) servers: Vec<ServerStatus>,
    /// Calls a second, by server.
    pub(super) rates: HashMap<String, f64>,
    pub(super) selected: usize,
    pub(super) page: TopPage,
    /// What became of the last command.
    pub(super) notice: Text,
    /// When the figures were taken.
    figures_at_ms: u64,
}

/// Whether the daemon answers.
pub(super) enum DaemonLink {
    Connecting,
    Live,
    /// What is shown is what was known last.
    Gone(String),
}

/// What fills the screen.
pub(super) enum TopPage {
    List,
    Help,
    Stderr {
        server: String,
        lines: VecDeque<Text>,
        /// How many lines the last shown one is above the end.
        above_end: usize,
    },
    Tools {
        server: String,
        /// `None` until the answer is there.
        catalog: Option<Result<Box<CatalogDocument>, String>>,
        first: usize,
    },
}

/// What the model asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TopRequest {
    Quit,
    Command(TopCommand, String),
    Stderr(String),
    Tools(String),
    /// Back to the list.
    Leave,
}

impl TopModel {
    pub(super) fn new() -> Self {
        Self {
            link: DaemonLink::Connecting,
            servers: Vec::new(),
            rates: HashMap::new(),
            selected: 0,
            page: TopPage::List,
            notice: Text::default(),
            figures_at_ms: 0,
        }
    }

    /// The server that keys are about.
    pub(super) fn selected(&self) -> Option<&ServerStatus> {
        self.servers.get(self.selected)
    }

    pub(super) fn feed(&mut self, message: FeedMessage) {
        match message {
            FeedMessage::Servers(list) => self.update(list),
            FeedMessage::Event(record) => self.event(*record),
            FeedMessage::Gone(why) => {
                self.link = DaemonLink::Gone(why);
                // The next daemon counts from zero.
                self.rates.clear();
                self.figures_at_ms = 0;
            }
            FeedMessage::Commanded(command, server, Ok(())) => {
                self.notice = text!("{} {}: done", command.as_str(), plain(&server));
            }
            FeedMessage::Commanded(command, server, Err(why)) => {
                self.notice = text!("{} {}: {}", command.as_str(), plain(&server), plain(&why));
            }
            FeedMessage::Stderr(line) => self.stderr(match line {
                Ok(line) => PlainText::line(&line.text).into(),
                Err(lag) => match lag.lost {
                    Some(lost) => text!("… {} lines are missing here", lost),
                    None => "… lines are missing here".into(),
                },
            }),
            FeedMessage::Tools(answer) => {
                if let TopPage::Tools { catalog, .. } = &mut self.page {
                    *catalog = Some(answer);
                }
            }
        }
    }

    /// Takes the list in, and keeps the selection on its server.
    fn update(&mut self, list: ServerList) {
        let name = self.selected().map(|server| server.name.clone());
        let passed_ms = list.at_ms.saturating_sub(self.figures_at_ms);
        if self.figures_at_ms > 0 && passed_ms > 0 {
            let before: HashMap<&str, u64> = self
                .servers
                .iter()
                .map(|server| (server.name.as_str(), server.calls.total))
                .collect();
            let rate = |server: &ServerStatus| {
                let began = server
                    .calls
                    .total
                    .checked_sub(*before.get(server.name.as_str())?)?;
                Some((server.name.clone(), began as f64 * 1_000.0 / passed_ms as f64))
            };
            self.rates = list.servers.iter().filter_map(rate).collect();
        }
        self.figures_at_ms = list.at_ms;
        self.servers = list.servers;
        Footing::sort(&mut self.servers);
        self.link = DaemonLink::Live;
        let same = |name: &String| self.servers.iter().position(|server| server.name == *name);
        let last = self.servers.len().saturating_sub(1);
        self.selected = name.as_ref().and_then(same).unwrap_or(self.selected.min(last));
    }

    /// A transition is shown at once, not with the next list.
    fn event(&mut self, record: EventRecord) {
        let EventRecord {
            at_ms,
            server: Some(name),
            detail:
                EventDetail::Transition {
                    to,
                    generation,
                    attempt,
                    next_retry_ms,
                    failure,
                    ..
                },
            ..
        } = record
        else {
            return;
        };
        let Some(server) = self.servers.iter_mut().find(|server| server.name == name) else {
            return;
        };
        server.state = to;
        // The next list says whether a disconnected server is only idle, and why it is so.
        server.up = to == StateName::Connected;
        server.reason = None;
        server.since_ms = at_ms;
        server.generation = generation;
        server.attempt = attempt;
        server.next_retry_ms = next_retry_ms;
        if failure.is_some() {
            server.last_failure = failure;
        }
    }

    fn stderr(&mut self, line: Text) {
        if let TopPage::Stderr { lines, above_end, .. } = &mut self.page {
            if lines.len() == STDERR_LIMIT {
                lines.pop_front();
            }
            lines.push_back(line);
            // A person who reads further up stays there.
            if *above_end > 0 {
                *above_end = (*above_end + 1).min(lines.len());
            }
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Option<TopRequest> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(TopRequest::Quit);
        }
        // What became of the last command was read; the keys are shown again.
        self.notice = Text::default();
        match (&self.page, key.code) {
            (_, KeyCode::Char('q')) => Some(TopRequest::Quit),
            (TopPage::List, KeyCode::Esc) => Some(TopRequest::Quit),
            (
                TopPage::Help | TopPage::Stderr { .. } | TopPage::Tools { .. },
                KeyCode::Esc | KeyCode::Backspace,
            ) => {
                self.page = TopPage::List;
                Some(TopRequest::Leave)
            }
            (_, KeyCode::Char('?' | 'h')) => {
                self.page = TopPage::Help;
                Some(TopRequest::Leave)
            }
            (_, KeyCode::Up | KeyCode::Char('k')) => self.scroll(-1),
            (_, KeyCode::Down | KeyCode::Char('j')) => self.scroll(1),
            (_, KeyCode::PageUp) => self.scroll(-10),
            (_, KeyCode::PageDown) => self.scroll(10),
            (_, KeyCode::Home | KeyCode::Char('g')) => self.scroll(isize::MIN),
            (_, KeyCode::End | KeyCode::Char('G')) => self.scroll(isize::MAX),
            (TopPage::List, KeyCode::Char('r')) => self.command(TopCommand::Restart),
            (TopPage::List, KeyCode::Char('e')) => self.command(TopCommand::Enable),
            (TopPage::List, KeyCode::Char('d')) => self.command(TopCommand::Disable),
            (TopPage::List, KeyCode::Char('l')) => {
                let server = self.selected()?.name.clone();
                self.page = TopPage::Stderr {
                    server: server.clone(),
                    lines: VecDeque::new(),
                    above_end: 0,
                };
                Some(TopRequest::Stderr(server))
            }
            (TopPage::List, KeyCode::Char('t') | KeyCode::Enter) => {
                let server = self.selected()?.name.clone();
                self.page = TopPage::Tools {
                    server: server.clone(),
                    catalog: None,
                    first: 0,
                };
                Some(TopRequest::Tools(server))
            }
            _ => None,
        }
    }

    fn command(&mut self, command: TopCommand) -> Option<TopRequest> {
        let server = self.selected()?.name.clone();
        self.notice = text!("{} {} …", command.as_str(), plain(&server));
        Some(TopRequest::Command(command, server))
    }

    /// Moves the selection, or the text that is shown.
    fn scroll(&mut self, by: isize) -> Option<TopRequest> {
        let moved = |from: usize, length: usize| from.saturating_add_signed(by).min(length.saturating_sub(1));
        match &mut self.page {
            TopPage::List => self.selected = moved(self.selected, self.servers.len()),
            TopPage::Stderr { lines, above_end, .. } => {
                let by = if by == isize::MIN { isize::MAX } else { -by };
                *above_end = above_end
                    .saturating_add_signed(by)
                    .min(lines.len().saturating_sub(1));
            }
            TopPage::Tools { catalog, first, .. } => {
                let tools = match catalog {
                    Some(Ok(catalog)) => catalog.tools.len(),
                    Some(Err(_)) | None => 0,
                };
                *first = moved(*first, tools);
            }
            TopPage::Help => {}
        }
        None
    }
}

#[cfg(test)]
pub(super) mod tests;
