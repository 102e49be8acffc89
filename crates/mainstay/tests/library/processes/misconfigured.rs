//! What is wrong with a configuration only shows when the server is started. Then that server fails, in words that
//! tell what to do, and no other.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use mainstay::{Fleet, ServerConfig, StateKind};
use mainstay_testkit::FaultyServer;
use serde_json::json;

use mainstay_testkit::fleet::{LONG, Stage};

#[tokio::test]
async fn a_server_that_cannot_be_started_says_why_and_keeps_no_other_from_starting() {
    let stage = Stage::new();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let plain = file("plain", "no program", 0o644);
    let no_interpreter = file("script", "#!/no/such/interpreter\n", 0o755);
    let of_windows = file("windows", "#!/bin/sh\r\nexit\r\n", 0o755);
    let no_format = file("bytes", "\0\0\0\0", 0o755);
    let good = || stage.server("good", FaultyServer::new());
    let named = |name: &str| stage.server(name, FaultyServer::new());
    let cases = [
        (
            ServerConfig::stdio("no-command", "no-such-command-anywhere"),
            "not found",
        ),
        (ServerConfig::stdio("no-file", "/no/such/file"), "not found"),
        (ServerConfig::stdio("not-executable", plain.clone()), "chmod +x"),
        (
            ServerConfig::stdio("is-directory", directory.path().display().to_string()),
            "is a directory",
        ),
        (
            ServerConfig::stdio("no-interpreter", no_interpreter),
            "interpreter",
        ),
        (ServerConfig::stdio("no-format", no_format), "needs a `#!` line"),
        (ServerConfig::stdio("windows", of_windows), "carriage return"),
        (ServerConfig::stdio("here", "."), "is a directory"),
        (
            ServerConfig::stdio("one-word", "no-such-command -v"),
            "give the program and its arguments apart",
        ),
        (ServerConfig::stdio("echo", "cat"), "writes back what it reads"),
        (
            named("no-directory").cwd("/no/such/directory"),
            "working directory `/no/such/directory`",
        ),
        (named("file-as-directory").cwd(plain), "working directory"),
        (
            named("too-much").arg("x".repeat(3_000_000)),
            "cannot be passed on",
        ),
    ];
    let servers: Vec<_> = cases
        .iter()
        .map(|(server, _)| server.clone())
        .chain([good()])
        .map(|server| server.required(true).build().unwrap())
        .collect();
    let fleet = Fleet::builder().start(servers);

    let good = fleet.server("good").unwrap();
    good.wait_connected(LONG).await.unwrap();
    good.call("echo", &json!({})).await.unwrap();
    for (config, words) in &cases {
        let config = config.clone().build().unwrap();
        let server = fleet.server(config.name()).unwrap();
        let status = server
            .wait_until(LONG, |status| status.state == StateKind::PermanentlyFailed)
            .await
            .unwrap_or_else(|| panic!("{:?}", server.status()));
        let message = &status.last_error.as_ref().unwrap().message;
        assert!(message.contains(words), "{}: {message}", config.name());
        assert_eq!(status.next_retry, None);
        let error = server.call("echo", &json!({})).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let mut failed: Vec<_> = fleet.wait_required(Duration::ZERO).await.unwrap_err().0;
    failed.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut expected: Vec<_> = cases
        .iter()
        .map(|(server, _)| server.clone().build().unwrap())
        .collect();
    expected.sort_by(|one, other| one.name().cmp(other.name()));
    assert!(
        failed
            .iter()
            .map(|(name, _)| name.as_str())
            .eq(expected.iter().map(ServerConfig::name))
    );
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_command_that_is_not_found_tells_where_it_was_searched() {
    let server = ServerConfig::stdio("lost", "no-such-command-anywhere").env("PATH", "/nowhere:/neither");
    let path = ServerConfig::stdio("path", "/no/such/file").env("PATH", "/nowhere:/neither");
    let fleet = Fleet::builder().start([server.build().unwrap(), path.build().unwrap()]);
    for (name, searched) in [("lost", Some("/nowhere:/neither")), ("path", None)] {
        let server = fleet.server(name).unwrap();
        let status = server
            .wait_until(LONG, |status| status.state == StateKind::PermanentlyFailed)
            .await
            .unwrap_or_else(|| panic!("{:?}", server.status()));
        assert_eq!(status.last_error.unwrap().searched.as_deref(), searched, "{name}");
    }
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_program_that_ends_by_itself_without_an_error_is_told_to_be_no_mcp_server() {
    let hint = "this does not look like an MCP server";
    for (command, is_hinted) in [("true", true), ("false", false)] {
        let server = ServerConfig::stdio("ends", command);
        let fleet = Fleet::builder().start([server.build().unwrap()]);
        let server = fleet.server("ends").unwrap();
        // The first attempt may have ended for the question that it began with.
        let is_clear = |status: &mainstay::Status| status.attempt >= 2;
        let status = server.wait_until(LONG, is_clear).await;
        let status = status.unwrap_or_else(|| panic!("{:?}", server.status()));
        let message = &status.last_error.unwrap().message;
        assert!(
            message.contains("the server's process ended while starting"),
            "{message}"
        );
        assert_eq!(message.contains(hint), is_hinted, "{message}");
        fleet.close(LONG).await;
    }
}

#[test]
fn what_is_wrong_with_a_server_before_it_is_started_is_refused_before_it_is_started() {
    for (server, words) in [
        (ServerConfig::stdio("empty", ""), "the command is empty"),
        (ServerConfig::stdio("blank", "  "), "the command is empty"),
        (ServerConfig::stdio("", "true"), "the name of a server is empty"),
        (
            ServerConfig::stdio("nowhere", "true").cwd(""),
            "the directory is empty",
        ),
        (ServerConfig::stdio("nul", "true").arg("a\0b"), "NUL"),
    ] {
        let refused = server.build().unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

#[tokio::test]
async fn a_command_that_appears_later_is_started_by_a_restart() {
    let stage = Stage::new();
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("server");
    let real = FaultyServer::new();
    let server = ServerConfig::stdio("late", link.display().to_string()).args(real.args());
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let late = fleet.server("late").unwrap();
    late.wait_until(LONG, |status| status.state == StateKind::PermanentlyFailed)
        .await
        .unwrap();

    std::os::unix::fs::symlink(real.command(), &link).unwrap();
    late.restart().await.unwrap();
    late.wait_connected(LONG).await.unwrap();
    fleet.close(LONG).await;
    drop(stage);
}
