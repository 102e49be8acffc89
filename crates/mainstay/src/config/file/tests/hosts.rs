//! Files as other programs write them, after their public documentation, and what is made of them.

use std::path::Path;
use std::time::Duration;

use super::lookup;
use crate::config::{ConfigError, Configuration, Host, ServerConfig, Target};

/// One file, and what is expected of it.
struct Case {
    /// Where the program keeps it. The working directory is `/src/app`, the home directory `/home/ann`.
    path: &'static str,
    text: &'static str,
    host: Host,
    servers: &'static [&'static str],
    said: &'static [&'static str],
}

fn parse(text: &str, path: &str) -> Result<Configuration, ConfigError> {
    Configuration::parse_in(text, Path::new(path), Path::new("/src/app"), lookup)
}

/// What a server would do, with the values that are secrets.
fn summary(server: &ServerConfig) -> String {
    let mut parts = vec![format!("{}:", server.name())];
    match server.target() {
        Target::Stdio(program) => {
            parts.push(program.command().value().to_owned());
            parts.extend(program.args().iter().map(|arg| arg.value().to_owned()));
            parts.extend(program.cwd().map(|cwd| format!("in {}", cwd.value())));
            let env = program.env().iter();
            parts.extend(env.map(|(name, value)| format!("{name}={}", value.expose())));
        }
        Target::Http(address) => {
            parts.push(format!("{} ({})", address.url.value(), address.kind.as_str()));
            let headers = address.headers.iter();
            parts.extend(headers.map(|(name, value)| format!("{name}={}", value.expose())));
            parts.extend(
                address
                    .bearer_token
                    .iter()
                    .map(|token| format!("bearer {}", token.expose())),
            );
        }
        Target::Unusable(unusable) => parts.push(format!("unusable: {}", unusable.reason())),
        Target::Custom(_) => unreachable!("no file holds one"),
    }
    if !server.enabled() {
        parts.push("off".to_owned());
    }
    let seconds = |limit: Duration| limit.as_secs_f32();
    if server.startup_timeout() != Duration::from_secs(45) {
        parts.push(format!("start<{}s", seconds(server.startup_timeout())));
    }
    if server.call_timeout() != Duration::from_secs(3600) {
        assert_eq!(server.call_timeout(), server.call_idle_timeout());
        parts.push(format!("call<{}s", seconds(server.call_timeout())));
    }
    parts.join(" ")
}

const CASES: &[Case] = &[
    Case {
        path: "/src/web/.cursor/mcp.json",
        text: include_str!("hosts/cursor.json"),
        host: Host::Cursor,
        servers: &[
            "local: python /src/web/tools/server.py --home=/home/ann/notes web API_KEY=hunter2-token",
            "remote: https://api.example.com/mcp (auto) Authorization=Bearer hunter2-token",
        ],
        said: &[],
    },
    Case {
        path: "/home/ann/.cursor/mcp.json",
        text: r#"{"mcpServers": {"s": {"command": "x", "args": ["${workspaceFolder}"]}}}"#,
        host: Host::Cursor,
        servers: &["s: x /src/app"],
        said: &[
            "note 1:48: mcpServers.s.args[0]: the workspace folder is the directory that Mainstay runs in, since this file belongs to no project",
        ],
    },
    Case {
        path: "/src/web/.vscode/mcp.json",
        text: include_str!("hosts/vscode.json"),
        host: Host::VsCode,
        servers: &[
            "regional: npx -y regional-server --region eu in /src/web PATH=/usr/bin:/opt/bin",
            "github: https://api.githubcopilot.com/mcp/ (http)",
        ],
        said: &[
            r#"note 12:53: servers.regional.args[3]: the default of the input "region" is used; set the variable MAINSTAY_INPUT_REGION for another value"#,
            "note 14:14: servers.regional.dev: VS Code's development mode is not read: Mainstay watches no files and starts no debugger",
            r#"error 20:28: servers.secret.env.API_KEY: VS Code asks a person for the input "api-key", and it has no default; set the variable MAINSTAY_INPUT_API_KEY to the answer"#,
            r#"error 22:93: servers.boxed.sandboxEnabled: this server is to run in a sandbox, and Mainstay has none, so it is not started; name a program in `command` that makes a sandbox, and write "sandboxEnabled": false"#,
        ],
    },
    Case {
        path: "/home/ann/.config/Code/User/settings.json",
        text: include_str!("hosts/vscode_settings.json"),
        host: Host::VsCode,
        servers: &["time: uvx mcp-server-time --key=none"],
        said: &[
            r#"note 7:63: mcp.servers.time.args[1]: the default of the input "key" is used; set the variable MAINSTAY_INPUT_KEY for another value"#,
        ],
    },
    Case {
        path: "/home/ann/.gemini/settings.json",
        text: include_str!("hosts/gemini.json"),
        host: Host::Gemini,
        servers: &[
            "python: python -m server /home/ann/data in /home/ann/.gemini/./servers API_KEY=hunter2-token DATABASE_URL=hunter2-token OTHER=$UNSET_NAME call<15s",
            "filtered: http://localhost:3000/mcp (http) Authorization=Bearer hunter2-token call<600s",
            "sse: http://localhost:8080/sse (auto)",
            "old: old-server off",
        ],
        said: &[
            "warning 9:74: mcpServers.python.env.OTHER: the variable UNSET_NAME is not set, so `$UNSET_NAME` is passed on as it is; set it",
            "note 21:5: mcpServers.old: disabled, since mcp.excluded names it",
        ],
    },
    Case {
        path: "/home/ann/.codeium/windsurf/mcp_config.json",
        text: include_str!("hosts/windsurf.json"),
        host: Host::Windsurf,
        servers: &[
            "github: npx -y @modelcontextprotocol/server-github GITHUB_PERSONAL_ACCESS_TOKEN=hunter2-token",
            "remote: https://mcp.example.com/mcp (auto) API_KEY=Bearer hunter2-token off",
        ],
        said: &[],
    },
    Case {
        path: "/home/ann/.claude.json",
        text: include_str!("hosts/claude.json"),
        host: Host::ClaudeCode,
        servers: &[
            "everywhere: npx -y everywhere",
            "quiet: quiet off",
            "here: https://mcp.example.com/mcp (http) call<120s",
            "both: of-project",
        ],
        said: &[
            "note 6:5: mcpServers.both: the server of the same name in this project is used instead",
            r#"note 7:5: mcpServers.quiet: disabled, since projects."/src/app".disabledMcpServers names it"#,
            "note 9:3: projects: 2 servers of other projects are not used; run mainstay in the directory of a project to use its servers",
        ],
    },
    Case {
        path: "/home/ann/.claude.json",
        text: r#"{"projects": {"/else": {"mcpServers": {"a": {"command": "x"}}}}}"#,
        host: Host::ClaudeCode,
        servers: &[],
        said: &[
            "note 1:2: projects: 1 server of other projects is not used; run mainstay in the directory of a project to use its servers",
        ],
    },
    Case {
        path: "/src/app/.mcp.json",
        text: include_str!("hosts/claude_code.json"),
        host: Host::ClaudeCode,
        servers: &[
            "api: https://api.example.com/mcp (http) Authorization=Bearer hunter2-token",
            "db: npx -y @bytebase/dbhub --dsn $TOKEN call<30s",
        ],
        said: &[
            r#"warning 7:18: mcpServers.api.timeout: Claude Code ignores a limit below 1000 ms, and so does Mainstay; set "call_timeout""#,
            "warning 9:74: mcpServers.db.args[3]: `$TOKEN` is no variable here and is passed on as it is; write ${TOKEN} for its value",
        ],
    },
    Case {
        path: "/home/ann/.config/zed/settings.json",
        text: include_str!("hosts/zed.json"),
        host: Host::Zed,
        servers: &[
            "flat: uvx mcp-server-git A=1 call<90s",
            "nested: node server.js --stdio B=2",
            "remote: https://mcp.example.com/mcp (auto) Authorization=Bearer x off",
        ],
        said: &[
            "error 7:5: context_servers.extension: an extension of Zed starts this server, and only Zed knows how; write its `command` and `args`, as the server's own documentation has them",
        ],
    },
    Case {
        path: "/src/app/opencode.jsonc",
        text: include_str!("hosts/opencode.jsonc"),
        host: Host::OpenCode,
        servers: &[
            "everything: npx -y @modelcontextprotocol/server-everything KEY=hunter2-token",
            "context7: https://mcp.context7.com/mcp (auto) CONTEXT7_API_KEY=hunter2-token start<20s call<90s",
            "off: off off",
        ],
        said: &[
            "note 10:18: mcp.everything.timeout: opencode's limit for listing tools; Mainstay has a limit of its own",
        ],
    },
    Case {
        path: "/home/ann/.codex/config.toml",
        text: include_str!("hosts/codex.toml"),
        host: Host::Codex,
        servers: &[
            "context7: npx -y @upstash/context7-mcp MY_ENV_VAR=MY_ENV_VALUE start<20s call<45.5s",
            "figma: https://mcp.figma.com/mcp (auto) X-Figma-Region=us-east-1 X-Secret=hunter2-token bearer hunter2-token",
            "off: off off",
        ],
        said: &[],
    },
    Case {
        path: "/home/ann/.config/goose/config.yaml",
        text: include_str!("hosts/goose.yaml"),
        host: Host::Goose,
        servers: &[
            "fetch: uvx mcp-server-fetch $HOME LEVEL=3 call<120s",
            "remote: https://mcp.example.com/mcp (http) Authorization=Bearer of-extension",
        ],
        said: &[
            "note 4:3: extensions.developer: not started, since this extension is a part of Goose itself",
            "warning 18:9: extensions.fetch.args[1]: `$HOME` is no variable here and is passed on as it is; write ${HOME} for its value",
            r#"error 33:16: extensions.locked.env_keys[0]: Goose keeps the value of LOCKED_TOKEN in its own store, and it is not set here; set it in the environment of Mainstay"#,
        ],
    },
    Case {
        path: "/home/ann/.continue/config.yaml",
        text: include_str!("hosts/continue.yaml"),
        host: Host::Continue,
        servers: &[
            "SQLite: npx -y mcp-sqlite /path/to/your/database.db TOKEN=hunter2-token start<15s",
            "Remote: https://mcp.example.com/mcp (http) Authorization=Bearer hunter2-token",
        ],
        said: &[
            "warning 23:5: mcpServers[2]: this server has no name, so it is not used; give it a `name`",
            "warning 24:5: mcpServers[3]: Continue takes this block from its hub, so it is not used here; write the server out, with its `command` or `url`",
        ],
    },
    Case {
        path: "/home/ann/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        text: include_str!("hosts/cline.json"),
        host: Host::Cline,
        servers: &[
            "local: node server.js API_KEY=key call<60s",
            "remote: https://mcp.example.com/sse (sse) off",
        ],
        said: &[],
    },
    Case {
        path: "/src/app/.roo/mcp.json",
        text: include_str!("hosts/roo.json"),
        host: Host::Roo,
        servers: &["puppeteer: npx -y @modelcontextprotocol/server-puppeteer call<300s"],
        said: &[
            "warning 9:7: mcpServers.puppeteer.watchPaths: this key of other programs is ignored; restart the server when they change",
        ],
    },
    Case {
        path: "/home/ann/.copilot/mcp-config.json",
        text: include_str!("hosts/copilot.json"),
        host: Host::CopilotCli,
        servers: &[
            "playwright: npx @playwright/mcp@latest call<60s",
            "context7: https://mcp.context7.com/mcp (http) CONTEXT7_API_KEY=abc",
        ],
        said: &[],
    },
    Case {
        path: "/home/ann/.aws/amazonq/mcp.json",
        text: include_str!("hosts/amazonq.json"),
        host: Host::AmazonQ,
        servers: &["docs: uvx awslabs.aws-documentation-mcp-server@latest FASTMCP_LOG_LEVEL=ERROR call<60s"],
        said: &[],
    },
];

#[test]
fn each_programs_file_is_read_with_the_meaning_it_has_there() {
    let mut wrong = Vec::new();
    for case in CASES {
        let path = case.path;
        let configuration = parse(case.text, path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let servers: Vec<_> = configuration.servers.iter().map(summary).collect();
        let said = configuration.problems.iter().map(|problem| {
            let said = problem.to_string().replace(&format!("{path}:"), "");
            format!("{} {said}", problem.severity)
        });
        let read = (
            configuration.host,
            servers.join("\n"),
            said.collect::<Vec<_>>().join("\n"),
        );
        let expected = (case.host, case.servers.join("\n"), case.said.join("\n"));
        if read != expected {
            wrong.push(format!("{path}:\n{}\n{}\n{}", read.0, read.1, read.2));
        }
    }
    assert!(wrong.is_empty(), "read otherwise:\n{}", wrong.join("\n\n"));
}

/// The tools of a server that are shown.
fn shown<'t>(configuration: &Configuration, server: &str, tools: &[&'t str]) -> Vec<&'t str> {
    let view = configuration.server(server).unwrap().tools();
    tools.iter().copied().filter(|tool| view.admits(tool)).collect()
}

#[test]
fn tools_that_a_program_hides_are_hidden() {
    for (path, text, server, tools, expected) in [
        (
            "g.json",
            include_str!("hosts/gemini.json"),
            "filtered",
            &["safe", "both", "eraser", "x"],
            &["safe"][..],
        ),
        (
            "w.json",
            include_str!("hosts/windsurf.json"),
            "github",
            &["delete_file", "read", "a", "b"],
            &["read", "a", "b"],
        ),
        (
            "o.json",
            include_str!("hosts/opencode.jsonc"),
            "everything",
            &["add", "add_two", "echo", "x_add"],
            &["echo", "x_add"],
        ),
        (
            "o.json",
            include_str!("hosts/opencode.jsonc"),
            "off",
            &["a", "b", "c", "d"],
            &[],
        ),
        (
            "c.toml",
            include_str!("hosts/codex.toml"),
            "context7",
            &["resolve", "docs", "x", "y"],
            &["resolve"],
        ),
        (
            "g.yaml",
            include_str!("hosts/goose.yaml"),
            "fetch",
            &["a", "b", "c", "d"],
            &["a", "b", "c", "d"],
        ),
        (
            "g.yaml",
            include_str!("hosts/goose.yaml"),
            "remote",
            &["search", "b", "c", "d"],
            &["search"],
        ),
        (
            "r.json",
            include_str!("hosts/roo.json"),
            "puppeteer",
            &["evaluate", "navigate", "a", "b"],
            &["navigate", "a", "b"],
        ),
        (
            "p.json",
            include_str!("hosts/copilot.json"),
            "playwright",
            &["a", "b", "c", "d"],
            &["a", "b", "c", "d"],
        ),
        (
            "p.json",
            include_str!("hosts/copilot.json"),
            "context7",
            &["get-library-docs", "b", "c", "d"],
            &["get-library-docs"],
        ),
    ] {
        let configuration = parse(text, path).unwrap();
        assert_eq!(
            shown(&configuration, server, tools),
            expected,
            "{server} of {path}"
        );
    }
}

#[test]
fn an_agent_of_amazon_q_sees_the_tools_that_it_names() {
    let text = r#"{"name": "a", "tools": ["fs_read", "@docs/search", "@docs/read_*", "@git", "@gitlab/list"],
        "mcpServers": {"docs": {"command": "d"}, "git": {"command": "g"}, "time": {"command": "t"}}}"#;
    let configuration = parse(text, "/home/ann/.aws/amazonq/cli-agents/a.json").unwrap();
    assert_eq!(configuration.host, Host::AmazonQ);
    let tools = ["search", "read_page", "write", "list"];
    assert_eq!(shown(&configuration, "docs", &tools), ["search", "read_page"]);
    assert_eq!(shown(&configuration, "git", &tools), tools);
    assert_eq!(shown(&configuration, "time", &tools), Vec::<&str>::new());
    assert!(configuration.problems.is_empty(), "{:?}", configuration.problems);
}

/// Every fixture, cut off at many of its characters and with many of them replaced. Steps keep the test short; with steps
/// of one it passes, too.
#[test]
fn no_broken_file_brings_the_reader_down_or_a_secret_into_a_message() {
    let secrets = ["hunter2-token", "abc-secret", "MY_ENV_VALUE", "of-extension"];
    let check = |text: &str, path: &str| {
        let said = match parse(text, path) {
            Ok(configuration) => format!("{configuration:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        for secret in secrets {
            assert!(!said.contains(secret), "{path}: {said}\n{text}");
        }
    };
    for case in CASES {
        for (at, _) in case.text.char_indices().step_by(5) {
            check(&case.text[..at], case.path);
        }
        for (at, c) in case.text.char_indices().step_by(17) {
            for other in ['"', '{', '\n', '$'] {
                let mut text = case.text.to_owned();
                text.replace_range(at..at + c.len_utf8(), other.encode_utf8(&mut [0; 4]));
                check(&text, case.path);
            }
        }
    }
}

#[test]
fn a_value_that_a_slip_makes_a_part_of_its_key_is_not_shown() {
    for text in [
        "mcpServers: {s: {command: x, env: {KEY:sesame}}}",
        "mcpServers: {s: {command: x, env: {KEY sesame}}}",
        "mcpServers: {s: {url: \"https://h/\", headers: {Authorization:sesame}}}",
    ] {
        let configuration = parse(text, "/m.yaml").unwrap();
        assert!(configuration.refused.contains("s"));
        assert!(
            !format!("{configuration:?}").contains("sesame"),
            "{configuration:?}"
        );
    }
}

#[test]
fn a_list_of_tools_that_cannot_be_honoured_keeps_the_server_from_running() {
    for list in [
        r#""disabledTools": "rm""#,
        r#""excludeTools": [1]"#,
        r#""enabledTools": []"#,
        r#""enabledTools": {"a": true}"#,
        r#""includeTools": ["a"], "excludeTools": ["*"]"#,
        r#""enabledTools": ["a"], "tools": ["b"]"#,
    ] {
        let text = format!(r#"{{"mcpServers": {{"s": {{"command": "x", {list}}}}}}}"#);
        let configuration = parse(&text, "/m.json").unwrap();
        assert!(
            configuration.refused.contains("s"),
            "{list}: {:?}",
            configuration.problems
        );
    }
}

#[test]
fn the_place_of_a_file_decides_only_where_its_content_does_not() {
    let plain = r#"{"mcpServers": {"s": {"command": "x", "timeout": 90}}}"#;
    let limit = |text: &str, path: &str| {
        let configuration = parse(text, path).unwrap();
        (
            configuration.host,
            configuration.servers[0].call_timeout().as_millis(),
        )
    };
    let hour = 3_600_000;
    assert_eq!(limit(plain, "/home/ann/mcp.json"), (Host::Common, hour));
    assert_eq!(limit(plain, "/src/app/.roo/mcp.json"), (Host::Roo, 90_000));
    assert_eq!(
        limit(plain, "/home/ann/.gemini/settings.json"),
        (Host::Gemini, 90)
    );
    let marked = r#"{"mcpServers": {"s": {"command": "x", "timeout": 90, "trust": false}}}"#;
    assert_eq!(limit(marked, "/src/app/.roo/mcp.json"), (Host::Gemini, 90));
    let torn = r#"{"mcpServers": {"s": {"command": "x", "timeout": 90, "trust": false, "alwaysAllow": []}}}"#;
    assert_eq!(limit(torn, "/home/ann/mcp.json"), (Host::Common, hour));
    assert_eq!(limit(torn, "/src/app/.roo/mcp.json"), (Host::Roo, 90_000));
}

#[test]
fn a_limit_in_an_unknown_unit_is_ignored_and_says_so() {
    let configuration = parse(
        r#"{"mcpServers": {"s": {"command": "x", "timeout": 90}}}"#,
        "/m.json",
    )
    .unwrap();
    assert_eq!(
        configuration.problems[0].to_string(),
        r#"/m.json:1:50: mcpServers.s.timeout: ignored, since programs count it in seconds or in milliseconds; set "call_timeout", such as "30s""#
    );
    let none = parse(
        r#"{"mcpServers": {"s": {"command": "x", "timeout": 0}}}"#,
        "/a/.roo/m.json",
    )
    .unwrap();
    assert!(none.refused.contains("s"));
}

#[test]
fn a_program_that_expands_names_itself_gets_them_in_silence() {
    let text = r#"{"mcpServers": {"s": {"command": "/bin/bash", "args": ["-c", "run $HOME $OTHER"], "env": {"A": "$TOKEN"}}}}"#;
    let configuration = parse(text, "/m.json").unwrap();
    let said: Vec<_> = configuration.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "/m.json:1:96: mcpServers.s.env.A: `$TOKEN` is no variable here and is passed on as it is; write ${TOKEN} for its value"
        ]
    );
}

#[test]
fn variables_of_a_file_are_set_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("web");
    std::fs::create_dir_all(project.join(".vscode")).unwrap();
    std::fs::write(project.join(".env"), "A=1\nB=sesame\nbroken sesame\n").unwrap();
    let path = project.join(".vscode/mcp.json");
    let text = r#"{"servers": {
        "s": {"command": "x", "envFile": ".env", "env": {"A": "2"}},
        "t": {"command": "x", "envFile": "${workspaceFolder}/.env"},
        "u": {"command": "x", "envFile": "nope.env"}
    }}"#;
    let configuration = parse(text, path.to_str().unwrap()).unwrap();
    let env = |server: &str| match configuration.server(server).unwrap().target() {
        Target::Stdio(program) => {
            let env = program.env().iter();
            env.map(|(name, value)| format!("{name}={}", value.expose()))
                .collect::<Vec<_>>()
        }
        Target::Http(_) | Target::Custom(_) | Target::Unusable(_) => unreachable!("a program"),
    };
    assert_eq!(env("s"), ["A=2", "B=sesame"]);
    assert_eq!(env("t"), ["A=1", "B=sesame"]);
    assert!(configuration.refused.contains("u"));
    let said = format!("{configuration:?}{:?}", configuration.problems);
    assert!(!said.contains("sesame"), "{said}");
    assert!(said.contains("line 3 of"), "{said}");
    let last = configuration.problems.last().unwrap().to_string();
    assert!(last.contains("nope.env") && last.contains("create it"), "{last}");
}

#[test]
fn the_text_of_a_file_is_a_secret_and_has_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "sesame\n").unwrap();
    std::fs::write(folder.path().join("big"), "x".repeat(200_000)).unwrap();
    std::fs::write(folder.path().join("binary"), [0xff, 0xfe]).unwrap();
    let path = folder.path().join("mcp_config.json");
    let text = format!(
        r#"{{"mcpServers": {{
            "absolute": {{"command": "x", "env": {{"KEY": "${{file:{}/key}}"}}}},
            "relative": {{"serverUrl": "https://h/", "headers": {{"Authorization": "Bearer ${{file:key}}"}}}},
            "missing": {{"command": "x", "env": {{"KEY": "${{file:none}}"}}}},
            "big": {{"command": "x", "env": {{"KEY": "${{file:big}}"}}}},
            "binary": {{"command": "x", "env": {{"KEY": "${{file:binary}}"}}}}
        }}}}"#,
        folder.path().display()
    );
    let configuration = parse(&text, path.to_str().unwrap()).unwrap();
    let servers: Vec<_> = configuration.servers.iter().map(summary).collect();
    assert_eq!(
        servers,
        [
            "absolute: x KEY=sesame",
            "relative: https://h/ (auto) Authorization=Bearer sesame"
        ]
    );
    assert!(!format!("{configuration:?}").contains("sesame"));
    let said: Vec<_> = configuration
        .problems
        .iter()
        .map(|problem| problem.message.clone())
        .collect();
    assert!(
        said[0].starts_with(r#"the file "none" cannot be read: No such file"#),
        "{}",
        said[0]
    );
    assert_eq!(
        said[1..],
        [
            r#"the file "big" is larger than 131072 bytes"#,
            r#"the file "binary" is not UTF-8 text"#,
        ]
    );
}

#[test]
fn an_input_is_answered_by_its_variable() {
    let text = r#"{"inputs": [], "servers": {"s": {"command": "x", "env": {"K": "${input:My key.1}"}}}}"#;
    let answered = Configuration::parse_in(text, Path::new("/m.json"), Path::new("/"), |name| {
        (name == "MAINSTAY_INPUT_MY_KEY_1").then(|| "sesame".to_owned())
    });
    assert_eq!(summary(&answered.unwrap().servers[0]), "s: x K=sesame");
    let configuration = parse(text, "/m.json").unwrap();
    assert_eq!(
        configuration.problems[0].to_string(),
        r#"/m.json:1:64: servers.s.env.K: VS Code asks a person for the input "My key.1", which `inputs` does not declare; set the variable MAINSTAY_INPUT_MY_KEY_1 to the answer"#
    );
}

#[test]
fn a_file_that_cannot_be_read_names_its_place_in_every_syntax() {
    for (path, text, expected) in [
        ("c.toml", "[mcp_servers.a]\ncommand = \"x\n", "c.toml:2:"),
        (
            "c.toml",
            "[mcp_servers.a]\n[mcp_servers.a]\n",
            "c.toml:2:14: not TOML: duplicate key",
        ),
        (
            "c.toml",
            "model = \"x\"\n",
            "c.toml:1:1: there is no `mcp_servers`; write [mcp_servers.name] and",
        ),
        (
            "c.toml",
            "[mcp_server.a]\ncommand = \"x\"\n",
            "rename \"mcp_server\" to \"mcp_servers\"",
        ),
        (
            "c.toml",
            "mcp_servers = 5\n",
            "c.toml:1:15: mcp_servers: expected an object, found a number",
        ),
        ("g.yaml", "extensions:\n  a: [\n", "g.yaml:"),
        ("g.yaml", "mcpServers:\n\t- name: x\n", "g.yaml:2:"),
        ("g.yaml", "# nothing\n", "g.yaml: the file is empty"),
        (
            "g.yaml",
            "name: x\n",
            "there is no `mcpServers`; write mcpServers:",
        ),
        (
            "g.yaml",
            "mcpServers: []\n",
            "mcpServers: expected an object, found an array",
        ),
        (
            "o.json",
            r#"{"mcp": {"a": {"type": "local", "command": ["x"#,
            "o.json:1:45: not JSON",
        ),
        (
            "z.json",
            r#"{"context_servers": []}"#,
            "z.json:1:21: context_servers: expected an object",
        ),
    ] {
        let error = parse(text, path).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn wrong_types_and_names_that_are_written_twice_cost_their_server_in_every_syntax() {
    for (path, text, expected) in [
        (
            "c.toml",
            "[mcp_servers.a]\ncommand = 5\n[mcp_servers.b]\ncommand = \"b\"\nstartup_timeout_sec = \"soon\"\n",
            &[
                "c.toml:2:11: mcp_servers.a.command: expected a string, found a number",
                "c.toml:5:23: mcp_servers.b.startup_timeout_sec: \"soon\" is not a duration",
            ][..],
        ),
        (
            "g.yaml",
            "mcpServers:\n  - name: a\n    command: x\n  - name: a\n    command: y\n  - name: b\n    command: z\n    args: -y\n",
            &[
                "g.yaml:4:11: mcpServers.a: two servers have this name, on lines 2 and 4",
                "g.yaml:8:11: mcpServers.b.args: expected an array, found a string",
            ],
        ),
        (
            "o.json",
            r#"{"mcp": {"a": {"type": "local", "command": []}, "b": {"type": "local", "command": "b", "environment": 1}}}"#,
            &[
                "o.json:1:44: mcp.a.command: the command is empty",
                "o.json:1:103: mcp.b.environment: expected an object, found a number",
            ],
        ),
        (
            "z.json",
            r#"{"context_servers": {"a": {"command": {"args": []}}}}"#,
            &["z.json:1:39: context_servers.a.command: there is no `path`"],
        ),
    ] {
        let configuration = parse(text, path).unwrap();
        let said: Vec<_> = configuration.errors().map(ToString::to_string).collect();
        assert_eq!(said.len(), expected.len(), "{said:?}");
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.starts_with(expected), "{said}");
        }
        assert!(configuration.servers.is_empty(), "{text}");
    }
}

#[test]
fn a_huge_file_is_refused_in_every_syntax() {
    for (path, line) in [("c.toml", "# x\n"), ("g.yaml", "# x\n"), ("o.json", "  \n")] {
        let text = line.repeat(10 * 1024 * 1024 / line.len());
        let error = parse(&text, path).unwrap_err();
        assert!(matches!(error, ConfigError::TooLarge { .. }), "{path}: {error}");
    }
}
