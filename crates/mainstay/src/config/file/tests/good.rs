//! Files that other programs write, and every setting.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay_lifecycle::{Backoff, Policy, WhenLost, WhenSpent};

use super::{lookup, one, read, rendered};
use crate::config::{ConfigText, Configuration, Isolation, Replay, ServerConfig, StdioTarget, Target};

fn stdio(server: &ServerConfig) -> &StdioTarget {
    match server.target() {
        Target::Stdio(stdio) => stdio,
        Target::Http(_) | Target::Custom(_) | Target::Unusable(_) => panic!("a program was configured"),
    }
}

fn names(configuration: &Configuration) -> Vec<&str> {
    configuration.servers.iter().map(ServerConfig::name).collect()
}

fn args(server: &ServerConfig) -> Vec<&str> {
    stdio(server).args().iter().map(ConfigText::value).collect()
}

#[test]
fn a_claude_desktop_file_is_read() {
    let configuration = read(
        r#"{
          "globalShortcut": "Ctrl+Space",
          "mcpServers": {
            "filesystem": {
              "command": "npx",
              "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ann/Desktop"]
            },
            "github": {
              "type": "stdio",
              "command": "docker",
              "args": ["run", "-i", "--rm", "-e", "GITHUB_TOKEN", "ghcr.io/github/github-mcp-server"],
              "env": { "GITHUB_TOKEN": "${TOKEN}", "PORT": 8080, "DEBUG": true }
            }
          }
        }"#,
    );
    assert_eq!(rendered(&configuration), Vec::<String>::new());
    assert_eq!(names(&configuration), ["filesystem", "github"]);
    let github = configuration.server("github").unwrap();
    assert_eq!(stdio(github).command().value(), "docker");
    assert_eq!(args(github)[..2], ["run", "-i"]);
    let env = stdio(github).env();
    assert_eq!(env["GITHUB_TOKEN"].expose(), "hunter2-token");
    assert_eq!((env["PORT"].expose(), env["DEBUG"].expose()), ("8080", "true"));
    assert!(github.enabled() && !github.required() && !github.lazy());
}

#[test]
fn a_vs_code_file_with_comments_and_trailing_commas_is_read() {
    let configuration = read(
        "\u{feff}{
          // asked once
          \"inputs\": [{ \"type\": \"promptString\", \"id\": \"key\", }],
          \"servers\": { /* one */ \"memory\": { \"type\": \"stdio\", \"command\": \"uvx\", \"args\": [\"mem\",], \"dev\": {} }, },
        }",
    );
    assert_eq!(rendered(&configuration), Vec::<String>::new());
    assert_eq!(names(&configuration), ["memory"]);
    assert_eq!(args(&configuration.servers[0]), ["mem"]);
}

#[test]
fn a_cursor_file_and_the_switches_of_cline_are_read() {
    let configuration = read(
        r#"{ "mcpServers": {
          "a": { "command": "${env:HOME}/bin/a", "disabled": true, "autoApprove": [], "alwaysAllow": ["x"] },
          "b": { "command": "b", "disabled": false, "env": null, "cwd": null, "tools": ["*"] },
          "c": { "command": "c", "enabled": false }
        } }"#,
    );
    assert_eq!(rendered(&configuration), Vec::<String>::new());
    let enabled: Vec<bool> = configuration.servers.iter().map(ServerConfig::enabled).collect();
    assert_eq!(enabled, [false, true, false]);
    assert_eq!(
        stdio(&configuration.servers[0]).command().value(),
        "/home/ann/bin/a"
    );
    assert!(configuration.servers[1].tools().admits("anything"));
}

#[test]
fn without_settings_a_server_has_the_defaults() {
    let configuration = one(r#""command": "x""#);
    let server = &configuration.servers[0];
    assert_eq!(server.policy(), &Policy::default());
    assert_eq!(server.replay(), Replay::Safe);
    assert_eq!(server.isolation(), Isolation::Shared);
    assert_eq!(server.startup_timeout(), Duration::from_secs(45));
    assert_eq!(server.call_timeout(), Duration::from_secs(3600));
    assert_eq!(server.call_idle_timeout(), Duration::from_secs(300));
    assert_eq!(server.wait_timeout(), Duration::from_secs(15));
    assert_eq!(server.waiters(), 256);
    assert_eq!(stdio(server).cwd(), None);
    assert_eq!(server, &ServerConfig::stdio("s", "x").build().unwrap());
}

#[test]
fn every_setting_reaches_the_server() {
    let configuration = one(r#"
        "command": "x", "required": true, "startup_timeout": 45, "call_timeout": "10m",
        "call_idle_timeout": "30s", "wait_timeout": "5s", "replay": "never", "waiters": 3, "idle_stop": "1h",
        "refresh_interval": "90s",
        "isolation": "session",
        "restart": {
          "budget": 4, "backoff": { "first": "500ms", "ceiling": 8 }, "slow_probe": "2m",
          "when_spent": "probe", "bucket": { "size": 2, "refill_every": "9s" }, "stable_after": "20s"
        },
        "probe": { "after_silence": 7, "timeout": 2, "misses": 5 },
        "tools": { "include": ["read_*"], "exclude": ["*_x"], "rename": { "read_a": "a" }, "describe": { "read_a": "A" } }
    "#);
    assert_eq!(rendered(&configuration), Vec::<String>::new());
    let server = &configuration.servers[0];
    let policy = server.policy();
    let seconds = Duration::from_secs;
    assert!(server.required());
    assert_eq!(server.startup_timeout(), seconds(45));
    assert_eq!(server.call_timeout(), seconds(600));
    assert_eq!(server.call_idle_timeout(), seconds(30));
    assert_eq!(server.wait_timeout(), seconds(5));
    assert_eq!((server.replay(), server.waiters()), (Replay::Never, 3));
    assert_eq!(server.isolation(), Isolation::Session);
    assert_eq!(policy.budget.get(), 4);
    assert_eq!(
        policy.backoff,
        Backoff::new(Duration::from_millis(500), seconds(8))
    );
    assert_eq!(policy.when_spent, WhenSpent::ProbeEvery(seconds(120)));
    assert_eq!(
        (policy.bucket.size.get(), policy.bucket.refill_every),
        (2, seconds(9))
    );
    assert_eq!(policy.stable_after, seconds(20));
    let probe = policy.probe.as_ref().unwrap();
    assert_eq!((probe.after_silence, probe.timeout), (seconds(7), seconds(2)));
    assert_eq!(probe.misses, NonZeroU32::new(5).unwrap());
    assert_eq!(policy.idle_stop, Some(seconds(3600)));
    assert_eq!(policy.expiry.every, Some(seconds(90)));
    assert_eq!(policy.when_lost, WhenLost::Restart);
    assert!(server.tools().admits("read_a") && !server.tools().admits("read_x"));
    assert_eq!(server.tools().public_name("read_a"), "a");
    assert_eq!(server.tools().describe("read_a"), Some("A"));
}

#[test]
fn a_server_may_be_started_again_by_calls_and_people_alone() {
    let configuration = one(r#""command": "x", "restart": "never""#);
    assert_eq!(rendered(&configuration), Vec::<String>::new());
    let policy = configuration.servers[0].policy();
    assert_eq!(policy.when_lost, WhenLost::StayDisconnected);
}

#[test]
fn camel_case_means_the_same() {
    let snake = one(
        r#""command": "x", "startup_timeout": 4, "call_timeout": 9, "call_idle_timeout": 8, "wait_timeout": 7, "idle_stop": 5,
        "restart": { "when_spent": "give_up", "stable_after": 3, "bucket": { "refill_every": 2 } },
        "probe": { "after_silence": 6 }"#,
    );
    let camel = one(
        r#""command": "x", "startupTimeout": 4, "callTimeout": 9, "callIdleTimeout": 8, "waitTimeout": 7, "idleStop": 5,
        "restart": { "whenSpent": "give_up", "stableAfter": 3, "bucket": { "refillEvery": 2 } },
        "probe": { "afterSilence": 6 }"#,
    );
    assert_eq!(rendered(&camel), Vec::<String>::new());
    assert_eq!(snake.servers, camel.servers);
    assert_ne!(snake.servers[0].policy(), &Policy::default());
}

#[test]
fn off_is_written_false_and_shorthands_work() {
    let off =
        one(r#""command": "x", "probe": false, "idle_stop": false, "restart": "give_up", "lazy": true"#);
    let policy = off.servers[0].policy();
    assert_eq!((policy.probe.as_ref(), policy.idle_stop), (None, None));
    assert_eq!(policy.when_spent, WhenSpent::GiveUp);
    assert!(off.servers[0].lazy());
    let on = one(r#""command": "x", "probe": true, "restart": "probe""#);
    assert_eq!(on.servers[0].policy(), &Policy::default());
}

#[test]
fn one_half_of_a_backoff_bends_the_other() {
    let ceiling = one(r#""command": "x", "restart": { "backoff": { "ceiling": "50ms" } }"#);
    let millis = Duration::from_millis;
    assert_eq!(
        ceiling.servers[0].policy().backoff,
        Backoff::new(millis(50), millis(50))
    );
    let first = one(r#""command": "x", "restart": { "backoff": { "first": "1m" } }"#);
    assert_eq!(
        first.servers[0].policy().backoff,
        Backoff::new(millis(60_000), millis(60_000))
    );
}

#[test]
fn a_short_call_timeout_shortens_the_idle_one_in_silence() {
    let configuration = one(r#""command": "x", "call_timeout": "30s""#);
    assert_eq!(rendered(&configuration), Vec::<String>::new());
    assert_eq!(
        configuration.servers[0].call_idle_timeout(),
        Duration::from_secs(30)
    );
}

#[test]
fn paths_start_from_home_from_the_file_and_from_the_cwd() {
    for (body, command, cwd) in [
        (
            r#""command": "~/bin/x", "cwd": "~""#,
            "/home/ann/bin/x",
            Some("/home/ann"),
        ),
        (r#""command": "x", "cwd": "shop""#, "x", Some("/etc/m/shop")),
        (
            r#""command": "./x", "cwd": "shop""#,
            "/etc/m/shop/./x",
            Some("/etc/m/shop"),
        ),
        (r#""command": "/opt/x", "cwd": "/srv""#, "/opt/x", Some("/srv")),
        (r#""command": "./x""#, "./x", None),
        (r#""command": "~ann/x""#, "~ann/x", None),
        (r#""command": "${NOPE:-~/x}""#, "/home/ann/x", None),
    ] {
        let configuration = one(body);
        assert_eq!(rendered(&configuration), Vec::<String>::new(), "{body}");
        let stdio = stdio(&configuration.servers[0]);
        assert_eq!(stdio.command().value(), command, "{body}");
        assert_eq!(stdio.cwd().map(ConfigText::value), cwd, "{body}");
    }
}

#[test]
fn a_variable_expands_in_command_args_env_and_cwd_but_not_in_names() {
    let configuration = one(
        r#""command": "${C:-run}", "args": ["${HOME}/a", "$${HOME}", 5], "cwd": "${HOME}",
        "env": { "A": "x${EMPTY}y", "${HOME}": "plain" }"#,
    );
    let server = &configuration.servers[0];
    assert_eq!(stdio(server).command().value(), "run");
    assert_eq!(args(server), ["/home/ann/a", "${HOME}", "5"]);
    assert_eq!(stdio(server).cwd().map(ConfigText::value), Some("/home/ann"));
    assert_eq!(stdio(server).env()["A"].expose(), "xy");
    assert!(stdio(server).env().contains_key("${HOME}"));
}

#[test]
fn several_groups_are_read_together() {
    let configuration = read(
        r#"{ "mcpServers": { "a": { "command": "a" } }, "servers": { "b": { "command": "b" } },
             "mcpServers": { "c": { "command": "c" } } }"#,
    );
    assert_eq!(names(&configuration), ["a", "b", "c"]);
}

#[test]
fn no_server_at_all_is_a_configuration_too() {
    assert_eq!(read(r#"{ "mcpServers": {} }"#).servers, []);
}

#[test]
fn a_file_is_loaded_from_disk_and_its_folder_is_where_relative_paths_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    std::fs::write(
        &file,
        r#"{ "mcpServers": { "a": { "command": "a", "cwd": "here" } } }"#,
    )
    .unwrap();
    let configuration = Configuration::load_with(&file, lookup).unwrap();
    assert_eq!(configuration.source, file);
    let expected = folder.path().join("here");
    assert_eq!(
        stdio(&configuration.servers[0]).cwd().map(ConfigText::value),
        expected.to_str()
    );
    assert_eq!(Configuration::load(&file).unwrap(), configuration);
}

#[test]
fn the_files_whose_text_is_used_are_named_readable_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    std::fs::write(folder.path().join("key"), "secret\n").unwrap();
    let text = r#"{ "mcpServers": {
        "a": { "command": "a", "env": { "KEY": "${file:key}" } },
        "b": { "command": "b", "envFile": "later.env" },
        "c": { "command": "c" } } }"#;
    std::fs::write(&file, text).unwrap();
    let configuration = Configuration::load_with(&file, lookup).unwrap();
    let expected = ["key", "later.env"].map(|name| folder.path().join(name));
    assert!(configuration.other_files.iter().eq(&expected));
    assert_eq!(names(&configuration), ["a", "c"]);
}
