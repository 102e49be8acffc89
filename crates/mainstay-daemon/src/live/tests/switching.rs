//! What a person enables and disables at run time, and what the next start makes of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::live::{LiveConfiguration, LiveStart, SwitchError};
use mainstay::{Configuration, Fleet};
use mainstay_gateway::Gateway;

/// Two servers that never answer; the second is disabled by the file.
const TWO: &str = r#"{ "mcpServers": {
    "on": { "command": "sh", "args": ["-c", "cat >/dev/null"] },
    "off": { "command": "sh", "args": ["-c", "cat >/dev/null"], "enabled": false } } }"#;

struct Run {
    live: LiveConfiguration,
    gateway: Gateway,
}

/// One run of a program on this configuration.
async fn start(file: &Path, state: &Path) -> Run {
    let configuration = Configuration::load(file).unwrap();
    let start = LiveStart::of_file(
        file,
        configuration.servers,
        BTreeSet::new(),
        Vec::new(),
        Some(state),
    );
    let gateway = Gateway::start(Fleet::builder(), start.servers());
    let live = start.follow(gateway.clone(), None, |_| {});
    // It has read the file once before it answers: what is written from here on is a change.
    let reloaded = live.reload().await.unwrap();
    assert!(reloaded.is_unchanged(), "{reloaded:?}");
    Run { live, gateway }
}

impl Run {
    /// What is wanted of each server: `off`, then `on`.
    fn wanted(&self) -> [bool; 2] {
        let wanted = |name| {
            self.gateway.fleet().server(name).unwrap().status().desired
                == mainstay::lifecycle::Desired::Enabled
        };
        ["off", "on"].map(wanted)
    }

    async fn end(self) {
        drop(self.live);
        self.gateway.close(Duration::from_secs(2)).await;
    }
}

fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mcp.json");
    fs::write(&file, TWO).unwrap();
    let state = directory.path().join("state");
    (directory, file, state)
}

#[tokio::test]
async fn what_a_person_switched_survives_a_restart_and_a_reload() {
    let (_directory, file, state) = place();
    let run = start(&file, &state).await;
    assert_eq!(run.wanted(), [false, true]);
    assert_eq!(run.live.switch("on", false).await.unwrap().not_kept, None);
    run.live.switch("off", true).await.unwrap();
    assert_eq!(run.wanted(), [true, false]);
    let reloaded = run.live.reload().await.unwrap();
    assert!(reloaded.is_unchanged(), "{reloaded:?}");
    run.end().await;

    let run = start(&file, &state).await;
    assert_eq!(run.wanted(), [true, false], "from the first moment on");
    // A changed entry stays as a person wanted it.
    fs::write(
        &file,
        TWO.replace("\"on\": { ", "\"on\": { \"call_timeout\": 9, "),
    )
    .unwrap();
    let reloaded = run.live.reload().await.unwrap();
    assert_eq!(
        (&reloaded.changes.adjusted, &reloaded.still_disabled),
        (&vec!["on".to_owned()], &vec!["on".to_owned()])
    );
    assert_eq!(run.wanted(), [true, false]);
    // Back to what the file says: nothing is left to keep.
    run.live.switch("on", true).await.unwrap();
    run.live.switch("off", false).await.unwrap();
    assert_eq!(run.wanted(), [false, true]);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    run.end().await;
}

#[tokio::test]
async fn the_file_wins_once_it_says_what_a_person_wanted() {
    let (_directory, file, state) = place();
    let run = start(&file, &state).await;
    run.live.switch("on", false).await.unwrap();
    fs::write(&file, TWO.replace("\"on\": { ", "\"on\": { \"enabled\": false, ")).unwrap();
    run.live.reload().await.unwrap();
    fs::write(&file, TWO).unwrap();
    let reloaded = run.live.reload().await.unwrap();
    assert_eq!(reloaded.changes.enabled, ["on"]);
    assert_eq!(run.wanted(), [false, true]);
    run.end().await;
}

#[tokio::test]
async fn a_server_that_was_switched_past_the_configuration_follows_the_latest_wish() {
    let (_directory, file, state) = place();
    let run = start(&file, &state).await;
    run.gateway.fleet().server("on").unwrap().disable().await.unwrap();
    run.live.switch("on", true).await.unwrap();
    assert_eq!(run.wanted(), [false, true]);
    run.end().await;
}

#[tokio::test]
async fn an_unknown_server_and_a_place_that_cannot_be_written_are_said() {
    let (_directory, file, state) = place();
    fs::write(&state, "a file where the directory should be").unwrap();
    let run = start(&file, &state).await;
    let unknown = run.live.switch("nobody", false).await;
    assert_eq!(unknown, Err(SwitchError::Unknown("nobody".into())));
    let switched = run.live.switch("on", false).await.unwrap();
    assert!(switched.not_kept.unwrap().contains("cannot be written"));
    assert_eq!(run.wanted(), [false, false], "it is disabled all the same");
    run.end().await;
}
