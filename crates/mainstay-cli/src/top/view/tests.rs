//! What a terminal of a given size shows.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde_json::json;

use super::super::feed::FeedMessage;
use super::super::model::TopModel;
use super::super::model::tests::{list, server};
use super::draw;

const NOW: u64 = 100_000;

fn terminal(model: &TopModel, width: u16, height: u16, is_coloured: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(frame, model, NOW, is_coloured))
        .unwrap();
    terminal
}

/// The lines of the screen, without spaces at their ends.
fn screen(model: &TopModel, width: u16, height: u16) -> Vec<String> {
    let terminal = terminal(model, width, height, true);
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width));
    lines
        .map(|line| {
            line.iter()
                .map(ratatui::buffer::Cell::symbol)
                .collect::<String>()
                .trim_end()
                .to_owned()
        })
        .collect()
}

fn sample() -> TopModel {
    let mut model = TopModel::new();
    let files = |total: u64| {
        let calls = json!({ "total": total, "in_flight": 2, "p50_us": 610, "p95_us": 8_400 });
        let catalog = json!({ "tools": 12, "prompts": 0, "resources": 0, "templates": 0, "listed_ms": null, "stale_since_ms": null });
        let process = json!({ "pid": 7, "processes": 3, "resident_bytes": 48_200_000, "cpu_ms": 5 });
        server(
            "files",
            json!({ "calls": calls, "catalog": catalog, "process": process }),
        )
    };
    let failure = json!({
        "message": "the process exited with code 3", "generation": 4, "exit_code": 3, "signal": null, "stderr": [],
        "stderr_reason": "cannot find my database", "login": null,
    });
    let web = server(
        "web",
        json!({
            "state": "reconnecting", "up": false, "attempt": 3, "next_retry_ms": NOW + 4_200, "since_ms": NOW - 9_000,
            "last_failure": failure, "target": "npx -y web",
        }),
    );
    let off = server(
        "off",
        json!({ "state": "disabled", "up": false, "desired": "disabled" }),
    );
    model.feed(list(98_000, vec![files(10), web.clone(), off.clone()]));
    model.feed(list(100_000, vec![files(40), web, off]));
    model
}

fn press(model: &mut TopModel, code: KeyCode) {
    model.key(KeyEvent::new(code, KeyModifiers::NONE));
}

#[test]
fn a_wide_terminal_shows_every_figure_and_what_is_wrong_with_the_selected_server() {
    let model = sample();
    assert_eq!(
        screen(&model, 90, 12),
        [
            "mainstay top   1 of 2 servers up, 1 disabled",
            "  SERVER STATE                RETRY CALLS/S      P50      P95   MEMORY TOOLS",
            "> web    reconnecting 3/10      5 s       0",
            "  files  connected                       15  0.61 ms   8.4 ms    49 MB    12",
            "  off    disabled                         0",
            "",
            "",
            "web: reconnecting 3/10 for 9.0 s, 1 time started, 0 in flight, 0 waiting",
            "npx -y web",
            "last failure: the process exited with code 3",
            "cannot find my database",
            "r restart  e enable  d disable  l stderr  t tools  ? help  q quit",
        ]
    );
}

#[test]
fn a_narrow_and_low_terminal_keeps_names_states_and_the_selection() {
    let mut model = sample();
    press(&mut model, KeyCode::End);
    assert_eq!(
        screen(&model, 36, 5),
        [
            "mainstay top   1 of 2 servers up, 1…",
            "  SERVER STATE                RETRY",
            "  files  connected",
            "> off    disabled",
            "r restart  e enable  d disable  l s…",
        ]
    );
    // Nothing panics, however small it is.
    for (width, height) in [(1, 1), (3, 2), (10, 3), (20, 200), (300, 1)] {
        screen(&model, width, height);
    }
}

#[test]
fn what_servers_say_cannot_drive_the_terminal() {
    let mut model = TopModel::new();
    let hostile = server(
        "a\u{1b}[2Jb\u{202e}",
        json!({
            "target": "\u{1b}]0;title\u{7}x\ny",
            "last_failure": {
                "message": "\u{9b}31mred", "generation": null, "exit_code": null, "signal": null, "stderr": [],
                "stderr_reason": "\u{0}\u{8}z", "login": null,
            },
        }),
    );
    model.feed(list(1_000, vec![hostile]));
    let shown = screen(&model, 80, 14).join("\n");
    assert!(shown.contains("> ab "), "{shown}");
    assert!(
        !shown
            .chars()
            .any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')),
        "{shown:?}"
    );
}

#[test]
fn without_colours_no_cell_has_one() {
    let coloured = |is_coloured: bool| {
        let terminal = terminal(&sample(), 90, 12, is_coloured);
        terminal
            .backend()
            .buffer()
            .content()
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(coloured(true));
    assert!(!coloured(false));
}

#[test]
fn a_daemon_that_went_away_is_said_and_its_servers_stay() {
    let mut model = sample();
    model.feed(FeedMessage::Gone("connection refused".to_owned()));
    let shown = screen(&model, 100, 12);
    assert_eq!(
        shown[0],
        "mainstay top   no daemon answers; looking again each second   connection refused"
    );
    assert!(shown[3].contains("files"));
}

#[test]
fn help_stderr_and_tools_fill_the_screen() {
    let mut model = sample();
    press(&mut model, KeyCode::Char('?'));
    assert!(screen(&model, 80, 14).join("\n").contains("follow its stderr"));
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Char('l'));
    assert_eq!(
        screen(&model, 80, 5)[1..3],
        ["stderr of files   (Esc: back)", "nothing was written yet"]
    );
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('t'));
    let tool = |name: &str| json!({ "public_name": name, "name": name, "definition": { "description": "Read\u{1b}[2J a file.\nMore." } });
    let catalog = json!({
        "server": "files", "server_info": null, "instructions": null, "listed_ms": null, "stale_since_ms": null, "hash": "x",
        "tools": [tool("files__read"), tool("files__write")], "prompts": [], "resources": [], "templates": [], "set_aside": [],
    });
    model.feed(FeedMessage::Tools(Ok(Box::new(
        serde_json::from_value(catalog).unwrap(),
    ))));
    assert_eq!(
        screen(&model, 80, 5)[1..4],
        [
            "tools of files   (Esc: back)",
            "files__read  Read a file.",
            "files__write  Read a file.",
        ]
    );
}

#[test]
fn an_attempt_beyond_the_budget_is_not_said_to_be_one_of_it() {
    for (attempt, state) in [(10, "reconnecting 10/10"), (11, "reconnecting 11")] {
        let mut model = TopModel::new();
        let web = json!({ "state": "reconnecting", "up": false, "attempt": attempt });
        model.feed(list(100_000, vec![server("web", web)]));
        let screen = screen(&model, 80, 10);
        assert!(screen.iter().any(|line| line.ends_with(state)), "{screen:?}");
    }
}
