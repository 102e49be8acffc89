//! Each mistake in a server, and the exact words a person gets to read.

use std::time::Duration;

use super::{assert_said, one, refused, warned};
use crate::config::{Configuration, ServerConfig, Severity, Target, ToolView};

#[test]
fn an_unknown_key_is_a_warning_that_names_the_nearest_known_one() {
    warned(
        r#""command": "x", "Args": [], "zebra": 1, "enviroment": {}, "headersHelper": "x""#,
        &[
            r#"3:19: mcpServers.s.Args: unknown key; did you mean "args"?"#,
            r#"3:31: mcpServers.s.zebra: unknown key"#,
            r#"3:43: mcpServers.s.enviroment: unknown key"#,
            r#"3:61: mcpServers.s.headersHelper: this key of other programs is ignored; write the headers in "headers", with variables: ${NAME}"#,
        ],
    );
}

#[test]
fn a_disabled_server_needs_no_values() {
    let body = r#""command": "x", "args": ["--a=${NOPE}"], "env": { "A": "${NOPE}" }"#;
    let said = "the variable NOPE is not set";
    let fix = "set it, or give it a default: ${NOPE:-default}";
    refused(
        body,
        &[
            &format!("3:33: mcpServers.s.args[0]: {said}; {fix}"),
            &format!("3:59: mcpServers.s.env.A: {said}; {fix}"),
        ],
    );
    for off in [r#""disabled": true"#, r#""enabled": false"#] {
        let configuration = one(&format!("{body}, {off}"));
        let only = "which matters only when the server is enabled";
        assert_said(
            &configuration,
            &[
                &format!("3:33: mcpServers.s.args[0]: {said}, {only}; {fix}"),
                &format!("3:59: mcpServers.s.env.A: {said}, {only}; {fix}"),
            ],
        );
        assert!(
            configuration
                .problems
                .iter()
                .all(|problem| problem.severity == Severity::Note)
        );
        assert!(configuration.refused.is_empty());
        assert!(!configuration.servers[0].enabled());
    }
    // A mistake in what is written is one, whether the server runs or not.
    refused(
        r#""command": "x", "disabled": true, "args": ["${"]"#,
        &["3:47: mcpServers.s.args[0]: `${` without its `}`; close it, or write `$${` for a plain `${`"],
    );
}

#[test]
fn a_disabled_server_without_its_values_is_not_started_when_it_is_enabled() {
    let configuration = one(r#""command": "${NOPE}", "disabled": true"#);
    let Target::Unusable(unusable) = configuration.servers[0].target() else {
        panic!("it could be started");
    };
    assert_eq!(unusable.reason(), "the variable NOPE is not set");
}

#[test]
fn values_that_another_process_has_need_not_be_here() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    let text = r#"{ "mcpServers": {
        "s": { "command": "x", "env": { "A": "${MAINSTAY_TEST_NOPE}" }, "call_timeout": "7s" },
        "remote": { "url": "${MAINSTAY_TEST_NOPE}" },
        "typo": { "command": "x", "args": ["${", "${MAINSTAY_TEST_NOPE}"] }
    } }"#;
    std::fs::write(&file, text).unwrap();
    let configuration = Configuration::load_for_another(&file).unwrap();
    let names: Vec<_> = configuration.servers.iter().map(ServerConfig::name).collect();
    assert_eq!(names, ["s", "remote"]);
    for server in &configuration.servers {
        let Target::Unusable(unusable) = server.target() else {
            panic!("it could be started");
        };
        assert_eq!(unusable.reason(), "the variable MAINSTAY_TEST_NOPE is not set");
        assert!(server.enabled());
    }
    assert_eq!(configuration.servers[0].call_timeout(), Duration::from_secs(7));
    let said: Vec<_> = configuration
        .problems
        .iter()
        .map(|problem| &problem.message)
        .collect();
    assert_eq!(said, ["`${` without its `}`"]);
    assert!(configuration.refused.contains("typo"));
}

#[test]
fn a_misspelt_command_is_named_beside_the_missing_one() {
    refused(
        r#""comand": "x""#,
        &[
            r#"2:17: mcpServers.s: there is no `command`; name the program to run"#,
            r#"3:3: mcpServers.s.comand: unknown key; did you mean "command"?"#,
        ],
    );
}

#[test]
fn a_missing_empty_or_unusable_command_is_refused() {
    refused(
        r#""args": []"#,
        &[r#"2:17: mcpServers.s: there is no `command`; name the program to run"#],
    );
    refused(
        r#""command": """#,
        &[r#"3:14: mcpServers.s.command: the command is empty; name the program to run"#],
    );
    refused(
        r#""command": 5"#,
        &[r#"3:14: mcpServers.s.command: expected a string, found a number"#],
    );
    refused(
        r#""command": ["npx", "-y"]"#,
        &[
            r#"3:14: mcpServers.s.command: expected a string, found an array; put all but the first item in "args""#,
        ],
    );
    refused(
        r#""command": "a\u0000b""#,
        &[r#"3:14: mcpServers.s.command: holds a NUL character, which cannot be passed to a program"#],
    );
}

#[test]
fn a_whole_command_line_in_command_is_a_warning_unless_there_is_such_a_program() {
    let said = r#"3:14: mcpServers.s.command: the command holds a space, and there is no program of that name; name only the program, and put its arguments in "args""#;
    warned(r#""command": "npx -y server""#, &[said]);
    warned(r#""command": "npx -y", "args": ["server"]"#, &[said]);
    warned(r#""command": "/bin/sh server.sh""#, &[said]);
    // A path with a space in it is no command line.
    warned(r#""command": "/opt/my tools/server""#, &[]);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("my server");
    std::fs::write(&program, "").unwrap();
    warned(&format!(r#""command": "{}""#, program.display()), &[]);
    let path = folder.path().display();
    warned(
        &format!(r#""command": "my server", "env": {{ "PATH": "{path}" }}"#),
        &[],
    );
    warned(
        &format!(r#""command": "your server", "env": {{ "PATH": "{path}" }}"#),
        &[said],
    );
}

#[test]
fn arguments_environment_and_directory_have_their_types() {
    refused(
        r#""command": "x", "args": "y""#,
        &[r#"3:27: mcpServers.s.args: expected an array, found a string"#],
    );
    refused(
        r#""command": "x", "args": ["y", {}, null]"#,
        &[
            r#"3:33: mcpServers.s.args[1]: expected a string, found an object"#,
            r#"3:37: mcpServers.s.args[2]: expected a string, found null"#,
        ],
    );
    refused(
        r#""command": "x", "env": [1]"#,
        &[r#"3:26: mcpServers.s.env: expected an object, found an array"#],
    );
    refused(
        r#""command": "x", "env": { "A": null, "B": [], "": "x", "C=D": "x" }"#,
        &[
            r#"3:33: mcpServers.s.env.A: expected a string, found null"#,
            r#"3:44: mcpServers.s.env.B: expected a string, found an array"#,
            r#"3:52: mcpServers.s.env."": not a name of a variable; a name is not empty and holds no `=`"#,
            r#"3:64: mcpServers.s.env."C=D": not a name of a variable; a name is not empty and holds no `=`"#,
        ],
    );
    refused(
        r#""command": "x", "cwd": """#,
        &[r#"3:26: mcpServers.s.cwd: the directory is empty; name one, or remove the key"#],
    );
    refused(
        r#""command": "x", "cwd": 7"#,
        &[r#"3:26: mcpServers.s.cwd: expected a string, found a number"#],
    );
}

#[test]
fn a_key_written_twice_is_refused_in_either_spelling() {
    refused(
        r#""command": "x", "env": { "A": "1", "A": "2" }"#,
        &[r#"3:38: mcpServers.s.env.A: written twice, first on line 3; keep one"#],
    );
    refused(
        r#""command": "x", "command": "y""#,
        &[r#"3:19: mcpServers.s.command: written twice, first on line 3; keep one"#],
    );
    refused(
        "\"command\": \"x\", \"call_timeout\": 5,\n  \"callTimeout\": 6",
        &[
            r#"4:3: mcpServers.s.callTimeout: written twice, first as mcpServers.s.call_timeout on line 3; keep one"#,
        ],
    );
    refused(
        r#""command": "x", "tools": { "rename": { "a": "b", "a": "c" } }"#,
        &[r#"3:52: mcpServers.s.tools.rename.a: written twice, first on line 3; keep one"#],
    );
}

#[test]
fn a_variable_that_is_not_set_names_itself_its_place_and_the_fix() {
    refused(
        r#""command": "${NOPE}/x", "args": ["a", "--t=${NOPE}"], "cwd": "/a/${NOPE:-${ALSO}}", "env": { "K": "${NOPE}" }"#,
        &[
            r#"3:15: mcpServers.s.command: the variable NOPE is not set; set it, or give it a default: ${NOPE:-default}"#,
            r#"3:46: mcpServers.s.args[1]: the variable NOPE is not set; set it, or give it a default: ${NOPE:-default}"#,
            r#"3:76: mcpServers.s.cwd: the variable ALSO is not set; set it, or give it a default: ${ALSO:-default}"#,
            r#"3:102: mcpServers.s.env.K: the variable NOPE is not set; set it, or give it a default: ${NOPE:-default}"#,
        ],
    );
    refused(
        r#""command": "x", "args": ["\\${NOPE}"]"#,
        &[
            r#"3:31: mcpServers.s.args[0]: the variable NOPE is not set; set it, or give it a default: ${NOPE:-default}"#,
        ],
    );
}

#[test]
fn a_variable_that_cannot_be_read_is_refused() {
    refused(
        r#""command": "x", "args": ["ab${HOME"]"#,
        &[r#"3:31: mcpServers.s.args[0]: `${` without its `}`; close it, or write `$${` for a plain `${`"#],
    );
    refused(
        r#""command": "x", "args": ["${}", "${input:key}", "${fileBasename}"]"#,
        &[
            r#"3:29: mcpServers.s.args[0]: `${` is not followed by the name of a variable; use letters, digits and `_`, or write `$${` for a plain `${`"#,
            r#"3:36: mcpServers.s.args[1]: VS Code asks a person for the input "key", which `inputs` does not declare; set the variable MAINSTAY_INPUT_KEY to the answer"#,
            r#"3:52: mcpServers.s.args[2]: `${fileBasename}` is known to editors only; write what it stands for"#,
        ],
    );
}

#[test]
fn switches_are_true_or_false_and_do_not_contradict() {
    refused(
        r#""command": "x", "enabled": "yes", "disabled": 1, "lazy": 0, "required": null"#,
        &[
            r#"3:30: mcpServers.s.enabled: expected true or false, found a string"#,
            r#"3:49: mcpServers.s.disabled: expected true or false, found a number"#,
            r#"3:60: mcpServers.s.lazy: expected true or false, found a number"#,
        ],
    );
    refused(
        r#""command": "x", "enabled": true, "disabled": true"#,
        &[r#"3:48: mcpServers.s.disabled: contradicts `enabled`; keep one of the two"#],
    );
}

#[test]
fn a_setting_without_effect_is_a_warning() {
    warned(
        r#""command": "x", "required": true, "disabled": true"#,
        &[
            r#"3:31: mcpServers.s.required: has no effect, since the server is disabled; enable it, or remove this"#,
        ],
    );
    warned(
        r#""command": "x", "required": true, "lazy": true"#,
        &[r#"3:31: mcpServers.s.required: has no effect, since the server is lazy; remove one of the two"#],
    );
    warned(
        r#""command": "x", "call_timeout": "10s", "call_idle_timeout": "20s""#,
        &[
            r#"3:63: mcpServers.s.call_idle_timeout: has no effect, since call_timeout is shorter; make it shorter, or remove it"#,
        ],
    );
    warned(
        r#""command": "x", "tools": { "exclude": ["a"], "rename": { "a": "b" }, "describe": { "b": "text", "a": "x" } }"#,
        &[
            r#"3:65: mcpServers.s.tools.rename.a: has no effect, since the tool is not shown; change "include" or "exclude", or remove it"#,
            r#"3:91: mcpServers.s.tools.describe.b: this is the new name of a tool; use its own name, "a""#,
            r#"3:104: mcpServers.s.tools.describe.a: has no effect, since the tool is not shown; change "include" or "exclude", or remove it"#,
        ],
    );
}

#[test]
fn durations_are_longer_than_zero_and_well_written() {
    refused(
        r#""command": "x", "startup_timeout": 0, "call_timeout": -5, "call_idle_timeout": "0s", "idle_stop": true"#,
        &[
            r#"3:38: mcpServers.s.startup_timeout: must be longer than zero"#,
            r#"3:57: mcpServers.s.call_timeout: a duration cannot be negative"#,
            r#"3:82: mcpServers.s.call_idle_timeout: must be longer than zero"#,
            r#"3:101: mcpServers.s.idle_stop: expected a duration, found a boolean"#,
        ],
    );
    refused(
        r#""command": "x", "startup_timeout": "soon", "call_timeout": "30", "call_idle_timeout": "9999d", "idle_stop": [1]"#,
        &[
            r#"3:38: mcpServers.s.startup_timeout: "soon" is not a duration; write a number of seconds, or "500ms", "30s", "5m", "1h""#,
            r#"3:62: mcpServers.s.call_timeout: "30" is not a duration; write a number of seconds, or "500ms", "30s", "5m", "1h""#,
            r#"3:89: mcpServers.s.call_idle_timeout: a duration cannot be longer than a year"#,
            r#"3:111: mcpServers.s.idle_stop: expected a duration, found an array"#,
        ],
    );
}

#[test]
fn settings_are_held_to_what_they_allow() {
    refused(
        r#""command": "x", "waiters": -1, "replay": "always", "probe": "no", "restart": "cry""#,
        &[
            r#"3:30: mcpServers.s.waiters: expected a whole number up to 4294967295, found -1"#,
            r#"3:44: mcpServers.s.replay: "always" is not understood; write "safe" or "never""#,
            r#"3:63: mcpServers.s.probe: expected an object, found a string"#,
            r#"3:80: mcpServers.s.restart: "cry" is not understood; write "probe", "give_up" or "never""#,
        ],
    );
    refused(
        r#""command": "x", "isolation": "per-client""#,
        &[
            r#"3:32: mcpServers.s.isolation: "per-client" is not understood; write "shared", or "session" for a server of its own for each client"#,
        ],
    );
    refused(
        r#""command": "x", "isolation": true"#,
        &[r#"3:32: mcpServers.s.isolation: expected a string, found a boolean"#],
    );
    refused(
        r#""command": "x", "waiters": 1.5, "restart": 5, "replay": 1, "probe": { "misses": 0, "timeout": 0, "afterSilence": "x" }"#,
        &[
            r#"3:30: mcpServers.s.waiters: expected a whole number up to 4294967295, found 1.5"#,
            r#"3:46: mcpServers.s.restart: expected an object, found a number"#,
            r#"3:59: mcpServers.s.replay: expected a string, found a number"#,
            r#"3:83: mcpServers.s.probe.misses: must be at least 1"#,
            r#"3:97: mcpServers.s.probe.timeout: must be longer than zero"#,
            r#"3:116: mcpServers.s.probe.afterSilence: "x" is not a duration; write a number of seconds, or "500ms", "30s", "5m", "1h""#,
        ],
    );
}

#[test]
fn the_restart_policy_is_held_to_what_it_allows() {
    refused(
        r#""command": "x", "restart": { "budget": 0, "backof": {}, "when_spent": "cry", "bucket": { "size": 0, "refill_every": 0 }, "stable_after": 0 }"#,
        &[
            r#"3:42: mcpServers.s.restart.budget: must be at least 1"#,
            r#"3:45: mcpServers.s.restart.backof: unknown key; did you mean "backoff"?"#,
            r#"3:73: mcpServers.s.restart.when_spent: "cry" is not understood; write "probe" or "give_up""#,
            r#"3:100: mcpServers.s.restart.bucket.size: must be at least 1"#,
            r#"3:119: mcpServers.s.restart.bucket.refill_every: must be longer than zero"#,
            r#"3:140: mcpServers.s.restart.stable_after: must be longer than zero"#,
        ],
    );
    refused(
        r#""command": "x", "restart": { "backoff": { "first": 5, "ceiling": 1 }, "when_spent": "give_up", "slow_probe": 5 }"#,
        &[
            r#"3:68: mcpServers.s.restart.backoff.ceiling: the longest pause is shorter than the first; raise it, or lower `first`"#,
            r#"3:112: mcpServers.s.restart.slow_probe: has no effect, since when_spent is "give_up"; remove one of the two"#,
        ],
    );
    refused(
        r#""command": "x", "restart": { "backoff": { "first": 0, "ceiling": 0 }, "slow_probe": 0, "bucket": [] }"#,
        &[
            r#"3:68: mcpServers.s.restart.backoff.ceiling: must be longer than zero"#,
            r#"3:87: mcpServers.s.restart.slow_probe: must be longer than zero"#,
            r#"3:100: mcpServers.s.restart.bucket: expected an object, found an array"#,
        ],
    );
    refused(
        r#""command": "x", "restart": { "backoff": { "first": 0 } }"#,
        &[r#"3:54: mcpServers.s.restart.backoff.first: must be longer than zero"#],
    );
}

#[test]
fn a_view_of_tools_that_contradicts_itself_is_refused() {
    refused(
        r#""command": "x", "tools": []"#,
        &[r#"3:28: mcpServers.s.tools: an empty list shows no tool at all; name some, or remove the list"#],
    );
    refused(
        r#""command": "x", "tools": { "include": [], "exclude": [5], "rename": [], "describe": { "a": 1 }, "incude": [] }"#,
        &[
            r#"3:41: mcpServers.s.tools.include: an empty list shows no tool at all; name some, or remove the list"#,
            r#"3:57: mcpServers.s.tools.exclude[0]: expected a string, found a number"#,
            r#"3:71: mcpServers.s.tools.rename: expected an object, found an array"#,
            r#"3:94: mcpServers.s.tools.describe.a: expected a string, found a number"#,
            r#"3:99: mcpServers.s.tools.incude: unknown key; did you mean "include"?"#,
        ],
    );
    refused(
        r#""command": "x", "tools": { "include": ["read_a", ""], "exclude": ["read_*"] }"#,
        &[
            r#"3:42: mcpServers.s.tools.include[0]: everything it names is hidden by the exclude "read_*"; remove one of the two"#,
            r#"3:52: mcpServers.s.tools.include[1]: an empty pattern matches no tool"#,
        ],
    );
    refused(
        r#""command": "x", "tools": { "rename": { "a": "c", "b": "c", "d": "no good", "e*": "f" } }"#,
        &[
            r#"3:57: mcpServers.s.tools.rename.b: "a" and "b" would both be called "c"; choose another name for one"#,
            r#"3:67: mcpServers.s.tools.rename.d: "no good" is not a name every model accepts; use letters, digits, `_` and `-`, at most 64"#,
            r#"3:84: mcpServers.s.tools.rename."e*": a tool is renamed by its whole name; write it without `*`"#,
        ],
    );
}

#[test]
fn a_server_is_reached_in_one_known_way() {
    refused(
        r#""type": "stdio", "url": "https://example.org""#,
        &[r#"3:27: mcpServers.s.url: a stdio server has no address; name a `command` instead"#],
    );
    refused(
        r#""command": "x", "url": "https://example.org""#,
        &[
            r#"3:26: mcpServers.s.url: a server has a `command` or an address, not both; remove one of the two"#,
        ],
    );
    refused(
        r#""type": "carrier-pigeon", "command": "x""#,
        &[
            r#"3:11: mcpServers.s.type: "carrier-pigeon" is not understood; write "stdio", "http" or "sse", or leave it out"#,
        ],
    );
    refused(
        r#""type": "htpt", "url": "https://example.org""#,
        &[r#"3:11: mcpServers.s.type: "htpt" is not understood; did you mean "http"?"#],
    );
    refused(
        r#""type": "sse", "command": "x""#,
        &[
            r#"3:29: mcpServers.s.command: a server of this type is not started by a command; name its `url` instead, or write "type": "stdio""#,
        ],
    );
    refused(
        r#""type": "http""#,
        &[r#"2:17: mcpServers.s: there is no `url`; write where the server is: https://…"#],
    );
}

#[test]
fn a_server_built_in_rust_passes_the_same_checks() {
    let view = ToolView::default().rename("a", "c").rename("b", "c");
    let error = ServerConfig::stdio("my server", " ")
        .arg("x\0")
        .call_timeout(Duration::ZERO)
        .startup_timeout(Duration::MAX)
        .tools(view)
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""my server".command: the command is empty; name the program to run
"my server".args[0]: holds a NUL character, which cannot be passed to a program
"my server".startup_timeout: a duration cannot be longer than a year
"my server".call_timeout: must be longer than zero
"my server".tools.rename.b: "a" and "b" would both be called "c"; choose another name for one"#
    );
    let error = ServerConfig::stdio("a__b", "x").build().unwrap_err();
    assert_eq!(error.problems().len(), 1);
}
