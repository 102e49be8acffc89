//! Nothing a file holds makes reading it panic, hang or grow without bound.

use super::{parse, read};
use crate::config::file::configuration::MAX_FILE_BYTES;
use crate::config::file::report::MAX_PROBLEMS;
use crate::config::{ConfigError, Configuration};

const GOOD: &str = r#"// head
{
  "$schema": "x", "nonsense": [1, 2.5e3, null],
  "mcpServers": {
    "files é": {
      "command": "~/run", "args": ["${HOME:-${A:-b}}", "\u00e9\\", 5,], "env": { "K": "$${x}", "L": true },
      "cwd": "w", "startupTimeout": "5m", "call_timeout": 5.5, "probe": { "misses": 3 },
      "restart": { "budget": 3, "backoff": { "first": 1, "ceiling": "2s" }, "bucket": { "size": 1 } }, /* note */
      "tools": { "include": ["a*", "b"], "exclude": ["*c"], "rename": { "a": "b" }, "describe": { "a": "text" } },
    },
    "remote": {
      "type": "http", "url": "https://example.org/mcp?k=${HOME}#f", "headers": { "X-Key": "${HOME}", "n": 1 }, "era": "legacy",
      "unix_socket": "~/s", "connect_timeout": 5, "firstByteTimeout": "1m", "bearer_token_env": "HOME",
    },
  },
}
"#;

#[test]
fn no_truncation_of_a_good_file_panics() {
    assert_eq!(read(GOOD).servers.len(), 2);
    let boundaries = (0..GOOD.len()).filter(|at| GOOD.is_char_boundary(*at));
    for at in boundaries {
        let _ = parse(&GOOD[..at]);
        let _ = parse(&GOOD[at..]);
    }
}

#[test]
fn no_damaged_byte_of_a_good_file_panics() {
    for at in 0..GOOD.len() {
        for damage in *b"\"{}[],:0-\\$x\n" {
            let mut bytes = GOOD.as_bytes().to_vec();
            bytes[at] = damage;
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn any_value_may_stand_anywhere_without_a_panic() {
    let values = [
        "null",
        "true",
        "-1",
        "1e999",
        "\"\"",
        "\"${\"",
        "[]",
        "[[]]",
        "{}",
        "{\"\":0}",
        "{\"a\":null}",
    ];
    let keys = [
        "command",
        "args",
        "env",
        "cwd",
        "type",
        "enabled",
        "disabled",
        "required",
        "lazy",
        "startup_timeout",
        "call_timeout",
        "call_idle_timeout",
        "wait_timeout",
        "restart",
        "replay",
        "probe",
        "idle_stop",
        "refresh_interval",
        "waiters",
        "tools",
        "url",
        "headers",
        "bearer_token_env",
        "tls",
        "unix_socket",
        "connect_timeout",
        "first_byte_timeout",
        "era",
    ];
    let inner = [
        "backoff",
        "bucket",
        "budget",
        "include",
        "exclude",
        "rename",
        "describe",
        "misses",
        "slow_probe",
        "ca",
        "cert",
        "key",
    ];
    for value in values {
        let _ = parse(value);
        let _ = parse(&format!("{{\"mcpServers\": {value}}}"));
        let _ = parse(&format!("{{\"mcpServers\": {{\"s\": {value}}}}}"));
        for (key, reached_by) in keys.iter().flat_map(|key| [(key, "command"), (key, "url")]) {
            let server = |body: &str| {
                let _ = parse(&format!(
                    "{{\"mcpServers\": {{\"s\": {{\"{reached_by}\": \"https://x\", {body}}}}}}}"
                ));
            };
            server(&format!("\"{key}\": {value}"));
            for inner in inner {
                server(&format!("\"{key}\": {{\"{inner}\": {value}}}"));
            }
        }
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    for open in ["[", "{\"a\":"] {
        let error = parse(&format!("{{\"mcpServers\": {}", open.repeat(100_000))).unwrap_err();
        assert!(
            error.to_string().ends_with("not JSON: nested too deeply"),
            "{error}"
        );
    }
}

#[test]
fn a_file_over_the_limit_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    let mut text = r#"{ "mcpServers": {} }"#.to_owned();
    text.push_str(&" ".repeat(MAX_FILE_BYTES - text.len()));
    std::fs::write(&file, &text).unwrap();
    assert!(Configuration::load(&file).is_ok());
    text.push(' ');
    std::fs::write(&file, &text).unwrap();
    assert!(matches!(
        Configuration::load(&file),
        Err(ConfigError::TooLarge { .. })
    ));
    assert!(matches!(parse(&text), Err(ConfigError::TooLarge { .. })));
    std::fs::write(&file, vec![0xff; MAX_FILE_BYTES + 1]).unwrap();
    assert!(matches!(
        Configuration::load(&file),
        Err(ConfigError::TooLarge { .. })
    ));
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_given_up_at_the_limit() {
    let endless = std::path::Path::new("/dev/zero");
    assert!(matches!(
        Configuration::load(endless),
        Err(ConfigError::TooLarge { .. })
    ));
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_without_a_writer_is_empty_and_does_not_hang() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(matches!(
        Configuration::load(&pipe),
        Err(ConfigError::Empty { .. })
    ));
}

#[test]
fn the_problems_are_bounded_but_no_bad_server_slips_through() {
    let many: Vec<String> = (0..5000)
        .map(|n| format!("\"s{n}\": {{ \"comand\": \"x\", \"env\": 5 }}"))
        .collect();
    let configuration = read(&format!("{{\"mcpServers\": {{ {} }}}}", many.join(",")));
    assert_eq!(configuration.problems.len(), MAX_PROBLEMS);
    assert_eq!(configuration.refused.len(), 5000);
    assert_eq!(configuration.servers, []);
}

#[test]
fn a_large_file_on_one_line_is_read_in_reasonable_time() {
    // Quadratic work on this would take minutes.
    let item = "\"é\": 1,";
    let text = format!(
        "{{\"mcpServers\": {{\"s\": {{\"command\": \"x\", \"env\": {{ {} }}}}}}}}",
        item.repeat(400_000)
    );
    assert!(text.len() > MAX_FILE_BYTES / 2);
    assert_eq!(read(&text).problems.len(), MAX_PROBLEMS);
}
