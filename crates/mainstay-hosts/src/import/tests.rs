mod editors;

use std::fs;
use std::path::{Path, PathBuf};

use mainstay::config::Target;
use tempfile::TempDir;

use super::{HostFile, ImportPlan, Readable};
use crate::bridge::EntryOwner;
use crate::file::Keep;
use crate::host::{HostProgram, UserFolders, places};
use crate::text::{ConfigValue, EditableText};

const PROGRAM: &str = "/opt/bin/mainstay";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn folders(home: &Path) -> UserFolders {
    let mut folders = UserFolders::of(|name| (name == "HOME").then(|| home.into())).unwrap();
    // The same on every system, so that the fixtures are found.
    folders.application = home.join(".config");
    folders
}

/// The files of all hosts, as if `root` held the user's home directory and a project.
fn files(root: &Path) -> Vec<HostFile> {
    let (home, project) = (root.join("home"), root.join("work"));
    let folders = folders(&home);
    let all = HostProgram::ALL.map(|host| places(host, &folders, Some(&project)));
    let read = |place| HostFile::read(&place, &home, PROGRAM).unwrap();
    all.into_iter().flatten().filter_map(read).collect()
}

/// A copy of the fixtures, each text changed like this.
fn copied(change: impl Fn(&str) -> String) -> TempDir {
    let copy = TempDir::new().unwrap();
    for file in files(&fixtures()) {
        let name = file.place.path.strip_prefix(fixtures()).unwrap();
        let path = copy.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, change(file.snapshot().text())).unwrap();
    }
    copy
}

#[test]
fn every_host_has_a_fixture() {
    let files = files(&fixtures());
    for host in HostProgram::ALL {
        assert!(files.iter().any(|file| file.place.host == host), "{host}");
    }
}

#[test]
fn each_hosts_file_is_rewritten_and_restored_to_the_same_bytes() {
    let unix = |text: &str| text.replace("\r\n", "\n");
    type Change = fn(&str) -> String;
    let changes: [(&str, Change); 5] = [
        ("as it is", str::to_owned),
        ("Windows line breaks", |text| {
            text.replace("\r\n", "\n").replace('\n', "\r\n")
        }),
        ("no line break at the end", |text| text.trim_end().to_owned()),
        ("blank lines at the end", |text| format!("{text}\n\n")),
        ("a byte order mark", |text| format!("\u{feff}{text}")),
    ];
    for (what, change) in changes {
        let copy = copied(change);
        let before = files(copy.path());
        let mut changed = 0;
        for file in &before {
            let rewritten = file.rewritten(None);
            changed += rewritten.changed.len();
            if !rewritten.changed.is_empty() {
                file.snapshot().replace(&rewritten.text, Keep::Backup).unwrap();
            }
        }
        assert_eq!(changed, 26, "{what}");
        let rewritten = files(copy.path());
        for (file, before) in rewritten.iter().zip(&before) {
            let path = file.place.path.display();
            assert!(
                file.rewritten(None).changed.is_empty(),
                "{path}: what is ours is left"
            );
            let restored = file.restored(None);
            assert_eq!(restored.text, before.snapshot().text(), "{path}: {what}");
            assert_eq!(unix(&restored.text), unix(before.snapshot().text()));
        }
    }
}

#[test]
fn bytes_outside_of_the_changed_entries_are_equal() {
    for file in files(&fixtures()) {
        let rewritten = file.rewritten(None);
        let outside = |text: &str| {
            let text = text.to_owned();
            let editable = EditableText::new(&file.place.path, &text);
            let tree = editable.tree().unwrap();
            let mut outside = text.clone();
            let mut spans: Vec<_> = rewritten
                .changed
                .iter()
                .map(|n| tree.at(&file.servers[*n].keys).unwrap())
                .map(|node| node.start..node.end)
                .collect();
            spans.sort_by_key(|span| std::cmp::Reverse(span.start));
            spans.into_iter().for_each(|span| outside.replace_range(span, ""));
            outside
        };
        if file
            .place
            .path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            assert_eq!(
                outside(&rewritten.text),
                outside(file.snapshot().text()),
                "{}",
                file.place.path.display()
            );
        }
    }
}

#[test]
fn a_rewritten_entry_starts_the_same_program_with_the_hosts_variables() {
    let copy = copied(str::to_owned);
    for file in files(copy.path()) {
        let rewritten = file.rewritten(None);
        fs::write(&file.place.path, &rewritten.text).unwrap();
    }
    let (before, after) = (files(&fixtures()), files(copy.path()));
    let program = |file: &HostFile, name: &str| {
        let server = file.servers.iter().find(|server| server.name == name).unwrap();
        match &server.readable {
            Readable::Server { config, .. } => match config.target() {
                Target::Stdio(program) => Some((
                    server.owner,
                    program.command().value().to_owned(),
                    program.args().len(),
                )),
                _ => None,
            },
            Readable::PartOfHost | Readable::Unusable(_) => None,
        }
    };
    let (codex, after_codex) = (
        before
            .iter()
            .find(|file| file.place.host == HostProgram::Codex)
            .unwrap(),
        after
            .iter()
            .find(|file| file.place.host == HostProgram::Codex)
            .unwrap(),
    );
    let text = after_codex.snapshot().text();
    assert!(
        text.contains(
            "args = [\"connect\", \"--env\", \"DOCS_TOKEN\", \"--env\", \"DOCS_HOME\", \"--\", 'uvx',\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("command = \"/opt/bin/mainstay\" # from PyPI\n"),
        "{text}"
    );
    let (owner, command, args) = program(after_codex, "docs-search").unwrap();
    assert_eq!((owner, command.as_str(), args), (EntryOwner::Bridge, "uvx", 3));
    let (owner, command, args) = program(codex, "docs-search").unwrap();
    assert_eq!((owner, command.as_str(), args), (EntryOwner::Host, "uvx", 3));
}

#[test]
fn a_file_that_its_host_wrote_anew_is_still_turned_back() {
    let file = files(&fixtures())
        .into_iter()
        .find(|file| file.place.path.ends_with(".claude.json"))
        .unwrap();
    let rewritten = file.rewritten(None).text;
    let value: serde_json::Value = serde_json::from_str(&rewritten).unwrap();
    let written_anew = serde_json::to_string_pretty(&value).unwrap();
    let copy = TempDir::new().unwrap();
    let path = copy.path().join("home/.claude.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, written_anew).unwrap();
    let restored = files(copy.path()).remove(0).restored(None);
    let mut restored: serde_json::Value = serde_json::from_str(&restored.text).unwrap();
    let mut before: serde_json::Value = serde_json::from_str(file.snapshot().text()).unwrap();
    // An empty list and none mean the same, and which it was is not known once the spaces are gone.
    for text in [&mut restored, &mut before] {
        let db = &mut text["projects"]["/home/sam/src/maps"]["mcpServers"]["db"];
        let db = db.as_object_mut().unwrap();
        assert!(db.remove("args").is_none_or(|args| args == serde_json::json!([])));
    }
    assert_eq!(restored, before);
}

#[test]
fn equal_servers_are_one_and_different_ones_under_one_name_are_kept_apart() {
    let files = files(&fixtures());
    let home = fixtures().join("home");
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    let plan = ImportPlan::of(&files, &text, &home).unwrap();
    let found = |name: &str| {
        let server = plan
            .servers
            .iter()
            .find(|server| server.name == name)
            .unwrap_or_else(|| panic!("{name}"));
        server
            .found
            .iter()
            .map(|(host, _)| host.key())
            .collect::<Vec<_>>()
    };
    assert_eq!(found("filesystem"), ["claude-desktop", "claude-code", "codex"]);
    assert_eq!(found("clock"), ["claude-desktop", "codex", "goose"]);
    assert_eq!(found("time"), ["vscode", "zed"]);
    assert_eq!(found("time-windsurf"), ["windsurf"]);
    assert_eq!(found("db"), ["claude-code"]);
    assert_eq!(found("db-claude-code"), ["claude-code"]);
    assert_eq!(found("github-vscode"), ["vscode"]);
    plan.apply(&mut text).unwrap();
    let again = ImportPlan::of(&files, &text, &home).unwrap();
    let new: Vec<_> = again
        .servers
        .iter()
        .filter(|server| server.entry.is_some())
        .map(|server| &server.name)
        .collect();
    assert!(new.is_empty(), "all is there already: {new:?}");
}

#[test]
fn an_imported_entry_means_what_it_means_in_its_host() {
    let files = files(&fixtures());
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    let plan = ImportPlan::of(&files, &text, &fixtures().join("home")).unwrap();
    plan.apply(&mut text).unwrap();
    let tree = text.tree().unwrap();
    let entry = |name: &str| {
        let node = tree.at(&["mcpServers", name]).unwrap_or_else(|| panic!("{name}"));
        text.text()[node.start..node.end]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let work = fixtures().join("work").display().to_string();
    let opencode = fixtures().join("home/.config/opencode").display().to_string();
    for (name, expected) in [
        ("linear", r#"{ "command": "npx", "args": ["-y", "mcp-remote", "https://mcp.linear.app/sse"], "env": { "LINEAR_TEAM": "core" }, "enabled": false, "call_timeout": 60, "call_idle_timeout": 60 }"#.to_owned()),
        ("oc-local", format!(r#"{{ "command": "bun", "args": ["x", "oc-mcp", "--key=${{OC_KEY}}"], "env": {{ "OC_MODE": "${{file:{opencode}/./oc.txt}}" }}, "enabled": false }}"#)),
        ("oc-remote", r#"{ "url": "https://oc.example/mcp", "headers": { "Authorization": "Bearer ${OC_TOKEN}" } }"#.to_owned()),
        ("bigquery", r#"{ "command": "npx", "args": ["-y", "@example/bigquery-mcp", "--project", "${GCP_PROJECT}"], "env": { "BQ_REGION": "${BQ_REGION}", "GOOGLE_APPLICATION_CREDENTIALS": "${HOME}/.gcp.json" }, "call_timeout": 30, "call_idle_timeout": 30, "tools": { "include": ["query"] } }"#.to_owned()),
        ("search", r#"{ "url": "https://search.example/mcp", "headers": { "X-Api-Key": "${SEARCH_KEY}" } }"#.to_owned()),
        ("perplexity", r#"{ "command": "npx", "args": ["-y", "server-perplexity-ask"], "env": { "PERPLEXITY_API_KEY": "${MAINSTAY_INPUT_PERPLEXITY_KEY}" } }"#.to_owned()),
        ("issue tracker", r#"{ "command": "npx", "args": ["-y", "@example/tracker-mcp"], "env": { "TRACKER_URL": "https://tracker.example", "TRACKER_TOKEN": "${TRACKER_TOKEN}" }, "enabled": false, "call_timeout": 60, "call_idle_timeout": 60 }"#.to_owned()),
        ("figma", r#"{ "url": "https://mcp.figma.com/mcp", "headers": { "X-Figma-Region": "us-east-1" }, "bearer_token_env": "FIGMA_OAUTH_TOKEN" }"#.to_owned()),
        ("lint", format!(r#"{{ "command": "node", "args": ["./tools/lint-mcp.js"], "env": {{ "LINT_LEVEL": "${{LINT_LEVEL:-warn}}" }}, "cwd": "{work}" }}"#)),
        ("docs", format!(r#"{{ "command": "{work}/bin/docs-mcp", "args": ["--root", "{work}"], "cwd": "{work}" }}"#)),
        ("remote", r#"{ "url": "https://tools.example/mcp", "type": "http", "call_timeout": 5, "call_idle_timeout": 5 }"#.to_owned()),
    ] {
        assert_eq!(entry(name), expected, "{name}");
    }
}

/// Mainstay's configuration after an import of these servers of Gemini CLI.
fn imported_from_gemini(servers: &serde_json::Value) -> (TempDir, EditableText) {
    let root = TempDir::new().unwrap();
    let home = root.path().join("home");
    fs::create_dir_all(home.join(".gemini")).unwrap();
    let settings = serde_json::json!({ "mcpServers": servers }).to_string();
    fs::write(home.join(".gemini/settings.json"), settings).unwrap();
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    let plan = ImportPlan::of(&files(root.path()), &text, &home).unwrap();
    assert!(plan.left.is_empty(), "{:?}", plan.left);
    plan.apply(&mut text).unwrap();
    (root, text)
}

#[test]
fn every_spelling_of_a_variable_is_written_as_mainstays_and_no_value_is_copied() {
    let (_root, text) = imported_from_gemini(&serde_json::json!({
        "a": {
            "command": "$HOME/bin/a",
            "args": ["$TOKEN", "--key=${TOKEN}", "${HOME}/notes", "~/kept", "100$", "a$${b $TOKEN"],
            "env": { "K": "$TOKEN-$HOME", "D": "${LEVEL:-low}" },
            "cwd": "~/work",
        },
        "b": { "httpUrl": "https://$HOST/mcp/$HOME", "headers": { "X-Key": "$TOKEN" } },
    }));
    let value = ConfigValue::of(&text.tree().unwrap().root);
    let expected = serde_json::json!({ "mcpServers": {
        "a": {
            "command": "${HOME}/bin/a",
            "args": ["${TOKEN}", "--key=${TOKEN}", "${HOME}/notes", "~/kept", "100$", "a$${b ${TOKEN}"],
            "env": { "K": "${TOKEN}-${HOME}", "D": "${LEVEL:-low}" },
            "cwd": "${HOME}/work",
        },
        "b": { "url": "https://${HOST}/mcp/${HOME}", "type": "http", "headers": { "X-Key": "${TOKEN}" } },
    }});
    assert!(value.means(&expected.into()), "{}", text.whole());
}

#[test]
fn each_text_keeps_its_own_default_of_a_variable() {
    let servers = serde_json::json!({
        "a": { "command": "${TOOLS:-/opt}/bin/a", "args": ["${LEVEL:-low}", "${LEVEL}"], "cwd": "${PLACE}/a" },
        "b": { "command": "b", "args": ["${LEVEL}"] },
        "e": { "command": "${TOOLS}/bin/e", "cwd": "/srv" },
        "c": { "command": "b", "args": ["${LEVEL:-high}"] },
        "d": { "command": "b", "args": ["$LEVEL ${LEVEL:-$TOOLS}"] },
    });
    let (_root, text) = imported_from_gemini(&servers);
    let value = ConfigValue::of(&text.tree().unwrap().root);
    let mut expected = serde_json::json!({ "mcpServers": servers });
    expected["mcpServers"]["d"]["args"] = serde_json::json!(["${LEVEL} ${LEVEL:-${TOOLS}}"]);
    assert!(value.means(&expected.into()), "{}", text.whole());
}

#[test]
fn one_host_may_write_the_home_directory_and_another_its_variable() {
    let root = TempDir::new().unwrap();
    let home = root.path().join("home");
    for (file, path) in [
        (".gemini/settings.json", "$HOME"),
        (".cursor/mcp.json", home.to_str().unwrap()),
    ] {
        fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
        let servers = serde_json::json!({ "mcpServers": { "a": { "command": "a", "args": [path] } } });
        fs::write(home.join(file), servers.to_string()).unwrap();
    }
    let text = EditableText::new(Path::new("/mcp.json"), "{}");
    let plan = ImportPlan::of(&files(root.path()), &text, &home).unwrap();
    assert_eq!(plan.servers.len(), 1, "they are one server");
    assert_eq!(plan.servers[0].found.len(), 2);
}

#[test]
fn a_file_of_variables_and_the_text_of_a_file_are_named_and_not_copied() {
    let root = TempDir::new().unwrap();
    let home = root.path().join("home");
    let place = home.join(".cursor/mcp.json");
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(home.join(".cursor/my.env"), "FROM_FILE=secret-one\n").unwrap();
    fs::write(home.join(".cursor/token"), "secret-two\n").unwrap();
    let servers = r#"{"mcpServers": {"a": {"command": "a", "envFile": "my.env", "env": {"K": "${file:token}", "D": "a$${b"}}}}"#;
    fs::write(&place, servers).unwrap();
    let files = files(root.path());
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    ImportPlan::of(&files, &text, &home)
        .unwrap()
        .apply(&mut text)
        .unwrap();
    assert!(!text.whole().contains("secret"), "{}", text.whole());
    let value = ConfigValue::of(&text.tree().unwrap().root);
    let folder = home.join(".cursor");
    let expected = serde_json::json!({"mcpServers": {"a": {
        "command": "a",
        "env": {"K": format!("${{file:{}}}", folder.join("token").display()), "D": "a$${b"},
        "env_file": folder.join("my.env"),
    }}});
    assert!(value.means(&expected.into()), "{}", text.whole());
    assert!(
        files[0].rewritten(None).text.contains(r#""--env", "FROM_FILE""#),
        "the bridge passes it on"
    );
}

#[test]
fn a_merge_key_of_yaml_is_honoured_by_an_import_and_never_edited() {
    let root = TempDir::new().unwrap();
    let home = root.path().join("home");
    fs::create_dir_all(home.join(".config/goose")).unwrap();
    let extensions = "common: &common\n  type: stdio\n  cmd: run\n  enabled: true\nextensions:\n  a:\n    <<: *common\n    args: [one]\n";
    fs::write(home.join(".config/goose/config.yaml"), extensions).unwrap();
    let files = files(root.path());
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    let plan = ImportPlan::of(&files, &text, &home).unwrap();
    plan.apply(&mut text).unwrap();
    let tree = text.tree().unwrap();
    let entry = tree.at(&["mcpServers", "a"]).and_then(|node| node.as_object());
    assert_eq!(
        entry.and_then(|entry| entry.text("command")),
        Some("run"),
        "{}",
        text.whole()
    );
    let rewritten = files[0].rewritten(None);
    assert_eq!(
        rewritten.text, extensions,
        "what other entries share stays as it is"
    );
    assert!(
        rewritten.left[0].1.contains("cannot be changed"),
        "{:?}",
        rewritten.left
    );
}

#[test]
fn hostile_files_are_errors_or_have_no_servers_and_never_panic() {
    let root = TempDir::new().unwrap();
    let home = root.path().join("home");
    let path = home.join(".cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let place = places(HostProgram::Cursor, &folders(&home), None).remove(0);
    for (text, is_error) in [
        ("", false),
        ("\u{feff}", false),
        ("{}", false),
        ("{\"mcpServers\": {}}", false),
        ("{\"mcpServers\": null}", false),
        ("{\"mcpServers\": [1]}", false),
        (
            "{\"mcpServers\": {\"a\": 1, \"b\": null, \"c\": [], \"d\": {\"command\": 1}}}",
            false,
        ),
        (
            "{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"a\": {\"command\": \"y\"}}}",
            false,
        ),
        (
            "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": {}}}}",
            false,
        ),
        (
            "{\"mcpServers\": {\"\": {\"command\": \"x\"}, \"\\u0000\": {\"command\": \"x\"}}}",
            false,
        ),
        (
            "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"env\": {\"--yes\": \"1\", \"A=B\": \"1\"}}}}",
            false,
        ),
        ("[1, 2]", true),
        ("{\"mcpServers\": {", true),
        ("null", true),
    ] {
        fs::write(&path, text).unwrap();
        let read = HostFile::read(&place, &home, PROGRAM);
        assert_eq!(read.is_err(), is_error, "{text}");
        if let Ok(Some(file)) = read {
            assert_eq!(file.rewritten(None).text, text, "nothing of it can be rewritten");
            assert_eq!(file.restored(None).text, text);
        }
    }
}

#[test]
fn a_directory_is_written_for_each_server_that_does_not_need_its_hosts_own() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("home/.cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let entry = |name: &str, rest: &str| format!("\"{name}\": {{{rest}}}");
    let servers = [
        entry("any", r#""command": "npx", "args": ["/x"], "env": {"K": "v"}"#),
        entry("dot", r#""command": "npx", "args": ["."]"#),
        entry("root", r#""command": "npx", "args": ["--root=../x"]"#),
        entry("own", r#""command": "npx", "cwd": "/srv""#),
        entry("file", r#""command": "bin/server""#),
    ];
    fs::write(&path, format!("{{\"mcpServers\": {{{}}}}}", servers.join(","))).unwrap();
    let file = files(root.path()).remove(0);
    let rewritten = file.rewritten(Some("/home/sam")).text;
    assert_eq!(rewritten.matches("--cwd").count(), 1, "{rewritten}");
    let any = r#"["connect", "--env", "K", "--cwd", "/home/sam", "--", "npx","/x"]"#;
    assert!(rewritten.contains(any), "{rewritten}");
}
