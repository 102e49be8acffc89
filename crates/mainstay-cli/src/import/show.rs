//! What an import shows: the hosts' servers, and what would change. Values of variables and headers are never shown.

use std::path::Path;

use mainstay::ServerConfig;
use mainstay::config::Target;
use mainstay_hosts::bridge::EntryOwner;
use mainstay_hosts::import::{HostFile, HostServer, ImportPlan, PlannedServer, Readable, Rewritten};

use super::shown;
use crate::output::{Cell, Ink, Screen, Text, plain, table, text};

/// The servers of one host's file.
pub(super) fn host(file: &HostFile, plan: &ImportPlan, screen: &Screen) -> Text {
    let mut shown = heading(file, screen);
    if file.servers.is_empty() {
        shown.push_line("  no servers");
    }
    let rows: Vec<_> = file
        .servers
        .iter()
        .map(|server| {
            let (command, remark) = match &server.readable {
                Readable::Server { config, entry } => {
                    let remark = match (server.owner, entry) {
                        (_, Err(reason)) => text!("not taken over: {}", plain(reason)),
                        (EntryOwner::Bridge, Ok(_)) => "through mainstay connect".into(),
                        (EntryOwner::Host | EntryOwner::Mainstay, Ok(_)) => left(file, server, plan),
                    };
                    let disabled = if config.enabled() { "" } else { "disabled" };
                    let parts = [disabled.into(), remark].into_iter();
                    let remark = Text::join(parts.filter(|part| !part.is_empty()), "; ");
                    (command(config, server.command.as_deref()), remark)
                }
                Readable::PartOfHost => (Text::default(), "a part of the host itself".into()),
                Readable::Unusable(reason) => (Text::default(), text!("not taken over: {}", plain(reason))),
            };
            vec![
                Cell::new(Ink::None, " "),
                Cell::new(Ink::Cyan, plain(&server.name)),
                Cell::new(Ink::None, command),
                Cell::new(Ink::Dim, with_variables(server, remark)),
            ]
        })
        .collect();
    push_table(&mut shown, &rows, screen);
    shown.push_line("");
    shown
}

fn heading(file: &HostFile, screen: &Screen) -> Text {
    let mut heading = Text::default();
    let title = screen.out.bold(file.place.host.title());
    heading.push_line(text!("{}  {}", title, shown(&file.place.path)));
    heading
}

fn left(file: &HostFile, server: &HostServer, plan: &ImportPlan) -> Text {
    match plan.reason_left(file, server) {
        Some(reason) => text!("not taken over: {}", plain(reason)),
        None => Text::default(),
    }
}

fn with_variables(server: &HostServer, remark: Text) -> Text {
    let variables = match server.variables() {
        [] => Text::default(),
        names => text!("env: {}", plain(&names.join(", "))),
    };
    let project = server.project.as_deref();
    let project = project.map_or_else(Text::default, |path| text!("project {}", shown(path)));
    let parts = [project, variables, remark];
    Text::join(parts.into_iter().filter(|part| !part.is_empty()), "; ")
}

/// What is added to Mainstay's configuration.
pub(super) fn plan(path: &Path, exists: bool, plan: &ImportPlan, screen: &Screen) -> Text {
    let mut text = Text::default();
    let title = screen.out.bold("Mainstay");
    let new = if exists { "" } else { " (new)" };
    text.push_line(text!("{}  {}{}", title, shown(path), new));
    if plan.servers.is_empty() {
        text.push_line("  nothing to add");
    }
    let rows: Vec<_> = plan
        .servers
        .iter()
        .map(|server| {
            let (sign, ink) = match server.entry {
                Some(_) => ("+", Ink::Green),
                None => (" ", Ink::None),
            };
            vec![
                Cell::new(ink, sign),
                Cell::new(ink, plain(&server.name)),
                Cell::new(Ink::None, command(&server.config, server.written("command"))),
                Cell::new(Ink::Dim, origin(server, plan)),
            ]
        })
        .collect();
    push_table(&mut text, &rows, screen);
    text.push_line("");
    text
}

/// Where a server comes from, and why it has its name.
fn origin(server: &PlannedServer, plan: &ImportPlan) -> Text {
    let found: Vec<String> = server
        .found
        .iter()
        .map(|(host, name)| match name == &server.name {
            true => host.title().to_owned(),
            false => format!("{} ({name})", host.title()),
        })
        .collect();
    let mut origin = match server.entry {
        Some(_) => text!("from {}", plain(&found.join(", "))),
        None => text!("there already; also in {}", plain(&found.join(", "))),
    };
    let first = server.found.first().map(|(_, name)| name);
    let other = plan.servers.iter().find(|other| Some(&other.name) == first);
    if server.entry.is_some() && first != Some(&server.name) {
        match other {
            Some(other) => origin.push(text!("; differs from {}", plain(&other.name))),
            None => origin.push("; the name is taken by another server"),
        }
    }
    let is_relative = |command: &str| command.starts_with("./") || command.starts_with("../");
    if let (true, Some(cwd)) = (
        server.written("command").is_some_and(is_relative),
        server.written("cwd"),
    ) {
        origin.push(text!("; in {}", plain(cwd)));
    }
    if server.entry.is_some() && !server.is_enabled {
        origin.push("; disabled");
    }
    origin
}

/// What changes in a host's file.
pub(super) fn rewriting(
    file: &HostFile,
    rewritten: &Rewritten,
    program: &str,
    cwd: Option<&str>,
    screen: &Screen,
) -> Text {
    let after = |server: &HostServer, command: &Text| {
        let mut line = text!("{} connect", plain(program));
        for option in file.options(server, cwd) {
            line.push(text!(" {}", plain(&option)));
        }
        line.push(text!(" -- {}", command));
        line
    };
    let mut text = changes(file, rewritten, screen, |server, command| {
        (command.clone(), after(server, command))
    });
    let left = rewritten.left.iter().map(|(n, reason)| {
        let name = plain(&file.servers[*n].name);
        text!("  {} stays as it is: {}", name, plain(reason))
    });
    left.for_each(|line| text.push_line(screen.out.dim(line)));
    text.push_line("");
    text
}

/// What changes back in a host's file.
pub(super) fn restoring(file: &HostFile, restored: &Rewritten, is_exact: bool, screen: &Screen) -> Text {
    let mut text = changes(file, restored, screen, |_, command| {
        (text!("mainstay connect … -- {}", command), command.clone())
    });
    text.push_line(screen.out.dim(if is_exact {
        "  the file becomes what it was, byte for byte"
    } else {
        "  the file was edited since, so only these entries are turned back"
    }));
    text.push_line("");
    text
}

fn changes(
    file: &HostFile,
    rewritten: &Rewritten,
    screen: &Screen,
    lines: impl Fn(&HostServer, &Text) -> (Text, Text),
) -> Text {
    let mut text = heading(file, screen);
    for server in rewritten.changed.iter().map(|n| &file.servers[*n]) {
        let command = match &server.readable {
            Readable::Server { config, .. } => command(config, server.command.as_deref()),
            Readable::PartOfHost | Readable::Unusable(_) => "…".into(),
        };
        let (before, after) = lines(server, &command);
        text.push_line(text!("  {}", plain(&server.name)));
        text.push_line(screen.out.ink(Ink::Red, text!("-   {}", before)));
        text.push_line(screen.out.ink(Ink::Green, text!("+   {}", after)));
    }
    text
}

/// How a server is reached, without secrets. `written` is its command as it stands in the file.
fn command(config: &ServerConfig, written: Option<&str>) -> Text {
    match config.target() {
        Target::Stdio(program) => {
            let command = written.unwrap_or_else(|| program.command().shown());
            let args = program.args().iter().map(mainstay::config::ConfigText::shown);
            let words: Vec<&str> = std::iter::once(command).chain(args).collect();
            plain(&words.join(" "))
        }
        Target::Http(address) => plain(address.url().shown()),
        _ => Text::default(),
    }
}

fn push_table(text: &mut Text, rows: &[Vec<Cell>], screen: &Screen) {
    for line in table(screen.out, rows) {
        text.push_line(line);
    }
}

/// Says what was written.
pub(super) fn written(path: &Path, kept: Option<&Path>, screen: &Screen) {
    match kept {
        Some(kept) => screen.note(text!("wrote {}; the old text is in {}", shown(path), shown(kept))),
        None => screen.note(text!("wrote {}", shown(path))),
    }
}
