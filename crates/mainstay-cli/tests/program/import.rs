//! `mainstay import`, `add` and `remove`: what is shown, what is written, and what stays.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mainstay_partner::partners;
use mainstay_testkit::FaultyServer;
use serde_json::{Value, json};

use crate::daemon::Shared;
use crate::sandbox::{MAINSTAY, Ran, Sandbox, finish, good};

const CURSOR: &str = "home/.cursor/mcp.json";
const CODEX: &str = "home/.codex/config.toml";
const OWN: &str = "home/.config/mainstay/mcp.json";

const SECRET: &str = "s3cret-of-the-fixture";

/// A machine with two hosts that share a server and differ in another.
fn machine() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        CURSOR,
        &format!(
            "{{\n  // mine\n  \"mcpServers\": {{\n    \"time\": {{ \"command\": \"uvx\", \"args\": [\"mcp-server-time\"] }},\n    \"notes\": {{ \"command\": \"notes\", \"env\": {{ \"TOKEN\": \"{SECRET}\" }} }},\n    \"web\": {{ \"url\": \"https://web.example/mcp\", \"headers\": {{ \"X-Key\": \"{SECRET}\" }} }},\n  }},\n}}"
        ),
    );
    sandbox.write(
        CODEX,
        &format!(
            "model = \"x\" # mine\n\n[mcp_servers.clock]\ncommand = \"uvx\"\nargs = [\"mcp-server-time\"]\n\n[mcp_servers.notes]\ncommand = 'notes' # other\nargs = [\"--token={SECRET}\"]\n"
        ),
    );
    sandbox
}

fn read(sandbox: &Sandbox, name: &str) -> String {
    fs::read_to_string(sandbox.path(name)).expect("a file")
}

fn own(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&read(sandbox, OWN)).expect("JSON")
}

/// What a run wrote, with the directory of the test and the program as `DIR` and `PROGRAM`.
fn shown(sandbox: &Sandbox, ran: &Ran) -> String {
    let directory = sandbox.path("").display().to_string();
    let text = format!("{}--\n{}", ran.stdout, ran.stderr);
    text.replace(MAINSTAY, "PROGRAM")
        .replace(directory.trim_end_matches('/'), "DIR")
}

#[test]
fn an_entry_that_pointed_at_mainstay_before_the_rewriting_stays_so_after_the_restore() {
    let sandbox = Sandbox::new();
    let before = r#"{ "mcpServers": {
  "a": { "command": "uvx", "args": ["mcp-server-time"] },
  "by_hand": { "command": "mainstay", "args": ["connect", "--", "notes"] }
} }"#;
    sandbox.write(CURSOR, before);
    sandbox.run(&["import", "--rewrite", "--yes"]).exits(0);
    assert_ne!(read(&sandbox, CURSOR), before);
    sandbox
        .run(&["import", "--restore", "--yes"])
        .exits(0)
        .prints("the file becomes what it was, byte for byte");
    assert_eq!(read(&sandbox, CURSOR), before);
    assert!(!sandbox.path(&format!("{CURSOR}.mainstay-backup")).exists());
}

#[test]
fn an_import_and_its_undoing_are_shown_line_by_line() {
    let sandbox = machine();
    let ran = sandbox.run(&["import", "--rewrite"]);
    let expected = "\
Cursor  DIR/home/.cursor/mcp.json
   time   uvx mcp-server-time
   notes  notes                    env: TOKEN
   web    https://web.example/mcp

Codex  DIR/home/.codex/config.toml
   clock  uvx mcp-server-time
   notes  notes --token=***

Mainstay  DIR/home/.config/mainstay/mcp.json (new)
+  time         uvx mcp-server-time      from Cursor, Codex (clock)
+  notes        notes                    from Cursor
+  web          https://web.example/mcp  from Cursor
+  notes-codex  notes --token=***        from Codex (notes); differs from notes

Cursor  DIR/home/.cursor/mcp.json
  time
-   uvx mcp-server-time
+   PROGRAM connect -- uvx mcp-server-time
  notes
-   notes
+   PROGRAM connect --env TOKEN -- notes
  web stays as it is: reached by an address

Codex  DIR/home/.codex/config.toml
  clock
-   uvx mcp-server-time
+   PROGRAM connect -- uvx mcp-server-time
  notes
-   notes --token=***
+   PROGRAM connect -- notes --token=***

--
A server behind `mainstay connect --` gets only the variables HOME, LOGNAME, PATH, SHELL, TERM and USER, and those that `--env NAME` names before the `--`.
looked for, and not found: Claude Desktop, Claude Code, VS Code, VS Code Insiders, VSCodium, Cline, Zed, Windsurf, Gemini CLI, Goose, opencode
nothing was written; run the command again with --yes to write this
";
    let said = shown(&sandbox, ran.exits(0));
    assert_eq!(said, expected, "\n{said}");

    sandbox.run(&["import", "--rewrite", "--yes"]).exits(0);
    let ran = sandbox.run(&["import", "--restore"]);
    let expected = "\
Cursor  DIR/home/.cursor/mcp.json
  time
-   mainstay connect … -- uvx mcp-server-time
+   uvx mcp-server-time
  notes
-   mainstay connect … -- notes
+   notes
  the file becomes what it was, byte for byte

Codex  DIR/home/.codex/config.toml
  clock
-   mainstay connect … -- uvx mcp-server-time
+   uvx mcp-server-time
  notes
-   mainstay connect … -- notes --token=***
+   notes --token=***
  the file becomes what it was, byte for byte

--
DIR/home/.config/mainstay/mcp.json still has values of `env`, headers, arguments or addresses of notes, web, notes-codex, which may be secrets; `mainstay remove NAME` removes a server, and the version before that stays in DIR/home/.config/mainstay/mcp.json.previous
nothing was written; run the command again with --yes to write this
";
    let said = shown(&sandbox, ran.exits(0));
    assert_eq!(said, expected, "\n{said}");
}

#[test]
fn servers_that_are_added_and_removed_are_shown() {
    let sandbox = Sandbox::new();
    let mut text = String::new();
    for (line, code) in [
        (&["add", "files", "--", "npx", "files"][..], 0),
        (&["add", "web", "--url", "https://web.example/mcp"], 0),
        (&["add", "web", "--", "x"], 2),
        (&["remove", "files"], 0),
        (&["remove", "fils"], 2),
    ] {
        text += &shown(&sandbox, sandbox.run(line).exits(code));
    }
    let expected = "\
--
added files to DIR/home/.config/mainstay/mcp.json, a new file
--
added web to DIR/home/.config/mainstay/mcp.json; the previous version is DIR/home/.config/mainstay/mcp.json.previous
--
error: DIR/home/.config/mainstay/mcp.json: there is a server \"web\" already; remove it first, or choose another name
--
removed files from DIR/home/.config/mainstay/mcp.json; the previous version is DIR/home/.config/mainstay/mcp.json.previous
--
error: DIR/home/.config/mainstay/mcp.json: there is no server \"fils\"
";
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn an_import_shows_everything_and_writes_nothing_unasked() {
    let sandbox = machine();
    let before = (read(&sandbox, CURSOR), read(&sandbox, CODEX));
    let ran = sandbox.run(&["import", "--rewrite"]);
    ran.exits(0)
        .prints("+  time         uvx mcp-server-time")
        .prints("from Cursor, Codex (clock)")
        .prints("+  notes-codex")
        .prints("from Codex (notes); differs from notes")
        .prints(&format!("+   {MAINSTAY} connect --env TOKEN -- notes"))
        .prints("-   uvx mcp-server-time")
        .prints("web stays as it is: reached by an address")
        .says("nothing was written; run the command again with --yes to write this");
    assert!(
        !ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET),
        "{}",
        ran.stdout
    );
    assert_eq!((read(&sandbox, CURSOR), read(&sandbox, CODEX)), before);
    assert!(!sandbox.path(OWN).exists());
}

#[test]
fn variables_that_are_not_set_are_named_before_and_after_an_import() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "home/.gemini/settings.json",
        &json!({ "mcpServers": {
            "a": { "command": "a", "args": ["$UNSET_ONE"], "env": { "K": "${UNSET_TWO}", "H": "$HOME", "S": "$SET" } },
            "off": { "url": "https://off.example/mcp", "headers": { "X-Key": "$UNSET_THREE" } },
        } })
        .to_string(),
    );
    let file = sandbox.path(OWN);
    for arguments in [&["import"][..], &["import", "--yes"]] {
        let mut command = sandbox.command(arguments);
        let ran = finish(command.env("SET", SECRET).spawn().expect("the program starts"));
        // There are no lines of a file before it is written.
        let place = match arguments {
            [_, "--yes"] => format!("warning: {}:", file.display()),
            _ => "warning: in what would be written: mcpServers.".to_owned(),
        };
        let at = |key: &str, variable: &str| {
            let is_named = |line: &str| {
                line.starts_with(&place)
                    && line.contains(&format!("mcpServers.{key}: the variable {variable} is not set"))
            };
            ran.stderr.lines().any(is_named)
        };
        ran.exits(0);
        assert!(at("a.args[0]", "UNSET_ONE"), "{}", ran.stderr);
        assert!(at("a.env.K", "UNSET_TWO"), "{}", ran.stderr);
        assert!(at("off.headers.X-Key", "UNSET_THREE"), "{}", ran.stderr);
        assert_eq!(ran.stderr.matches("is not set").count(), 3, "{}", ran.stderr);
    }
    let servers = own(&sandbox)["mcpServers"].clone();
    assert_eq!(
        servers["a"]["env"],
        json!({ "K": "${UNSET_TWO}", "H": "${HOME}", "S": "${SET}" })
    );
    let again = sandbox.run(&["import"]);
    assert!(
        !again.exits(0).stderr.contains("warning"),
        "nothing is new: {}",
        again.stderr
    );
}

#[test]
fn a_rewriting_is_undone_to_the_byte_and_leaves_no_copy() {
    let sandbox = machine();
    let before = (read(&sandbox, CURSOR), read(&sandbox, CODEX));
    sandbox
        .run(&["import", "--rewrite", "--yes"])
        .exits(0)
        .says("wrote ");
    let servers = &own(&sandbox)["mcpServers"];
    assert_eq!(
        crate::sandbox::keys(servers),
        ["notes", "notes-codex", "time", "web"]
    );
    assert_eq!(servers["notes"]["env"]["TOKEN"], SECRET);
    let mode = fs::metadata(sandbox.path(OWN)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "it holds secrets");
    let cursor = read(&sandbox, CURSOR);
    assert!(
        cursor.contains(&format!(
            "\"time\": {{ \"command\": \"{MAINSTAY}\", \"args\": [\"connect\", \"--\", \"uvx\",\"mcp-server-time\"] }},"
        )),
        "{cursor}"
    );
    assert_eq!(read(&sandbox, "home/.cursor/mcp.json.mainstay-backup"), before.0);
    // A second run finds nothing to do.
    let again = sandbox.run(&["import", "--rewrite", "--yes"]);
    again
        .exits(0)
        .prints("time stays as it is: points at mainstay connect already");
    assert!(!again.stderr.contains("wrote"), "{}", again.stderr);
    sandbox
        .run(&["import", "--restore"])
        .exits(0)
        .prints("the file becomes what it was, byte for byte")
        .says("nothing was written");
    assert_eq!(read(&sandbox, CURSOR), cursor);
    sandbox.run(&["import", "--restore", "--yes"]).exits(0);
    assert_eq!((read(&sandbox, CURSOR), read(&sandbox, CODEX)), before);
    assert!(!sandbox.path("home/.cursor/mcp.json.mainstay-backup").exists());
    sandbox
        .run(&["import", "--restore", "--yes"])
        .exits(0)
        .says("no host's entry points at mainstay connect");
}

#[test]
fn a_real_host_connects_to_its_server_before_and_after_its_file_is_rewritten() {
    let Some(partners) = partners() else { return };
    let Some(gemini) = partners.gemini_cli else {
        eprintln!("skipped: no host is installed; run `cargo xtask partners`");
        return;
    };
    let shared = Shared::new();
    let sandbox = &shared.sandbox;
    let file = "home/.gemini/settings.json";
    let server = FaultyServer::new();
    let (command, args) = (server.command(), server.args());
    let entry = json!({ "command": command, "args": args });
    let before = format!(
        "{{\n  // mine\n  \"security\": {{ \"folderTrust\": {{ \"enabled\": false }} }},\n  \"mcpServers\": {{ \"scripted\": {entry} }}\n}}\n"
    );
    sandbox.write(file, &before);
    let listed = || {
        let mut host = sandbox.other(gemini.command.to_str().expect("a path in UTF-8"));
        host.args(&gemini.args).args(["mcp", "list"]).envs(&gemini.env);
        let ran = finish(host.spawn().expect("the host starts"));
        let said = format!("{}{}", ran.exits(0).stdout, ran.stderr);
        let line = said.lines().find(|line| line.contains("scripted: "));
        line.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let direct = listed();
    assert!(direct.contains(&format!("scripted: {command}")), "{direct}");
    assert!(direct.contains("Connected"), "{direct}");
    sandbox
        .run(&["import", "--rewrite", "--from", "gemini", "--yes"])
        .exits(0);
    let bridged = listed();
    assert!(
        bridged.contains(&format!("scripted: {MAINSTAY} connect -- {command}")),
        "{bridged}"
    );
    assert!(bridged.contains("Connected"), "{bridged}");
    assert!(shared.status().is_some(), "its bridge started the daemon");
    sandbox.run(&["import", "--restore", "--yes"]).exits(0);
    assert_eq!(read(sandbox, file), before);
}

#[test]
fn a_file_that_was_edited_since_keeps_the_edit_and_the_copy() {
    let sandbox = machine();
    let before = read(&sandbox, CURSOR);
    sandbox
        .run(&["import", "--rewrite", "--from", "cursor", "--yes"])
        .exits(0);
    let edited = read(&sandbox, CURSOR).replace("// mine", "// changed by the host");
    sandbox.write(CURSOR, &edited);
    sandbox
        .run(&["import", "--restore", "--yes"])
        .exits(0)
        .prints("the file was edited since, so only these entries are turned back")
        .says("kept: ");
    assert_eq!(
        read(&sandbox, CURSOR),
        before.replace("// mine", "// changed by the host")
    );
    assert_eq!(read(&sandbox, "home/.cursor/mcp.json.mainstay-backup"), before);
}

#[test]
fn a_host_whose_file_cannot_be_used_costs_that_host_alone() {
    let sandbox = machine();
    let broken = sandbox.write(CODEX, "[mcp_servers.a\ncommand = 1\n");
    sandbox
        .run(&["import", "--yes"])
        .exits(1)
        .says(&format!("Codex: {}:1:", broken.display()));
    assert_eq!(
        crate::sandbox::keys(&own(&sandbox)["mcpServers"]),
        ["notes", "time", "web"]
    );
    sandbox
        .run(&["import", "--from", "cursr"])
        .exits(2)
        .says("did you mean \"cursor\"?");
    let read_only = sandbox.path(CURSOR);
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o444)).unwrap();
    sandbox
        .run(&["import", "--from", "cursor", "--rewrite", "--yes"])
        .exits(1)
        .says("the file is read-only, so it was not changed");
}

#[test]
fn a_run_without_yes_shows_no_change_that_would_be_refused_and_what_stays_after_it() {
    let sandbox = Sandbox::new();
    sandbox.write(
        CURSOR,
        r#"{"mcpServers": {
            "here": {"command": "./bin/here", "cwd": "sub"},
            "off": {"command": "off", "disabled": true, "env": {"TOKEN": "value"}}}}"#,
    );
    sandbox.write(
        "work/.mcp.json",
        r#"{"mcpServers": {"tool": {"command": "./tool"}}}"#,
    );
    let ran = sandbox.run(&["import", "--project", "--from", "claude-code"]);
    let place = ran
        .stdout
        .lines()
        .find(|line| line.starts_with("+  tool  ./tool  "));
    let place = place.unwrap_or_else(|| panic!("{}", ran.stdout));
    assert!(place.contains("from Claude Code; in /"), "{place}");
    let hint = "gets only the variables HOME, LOGNAME, PATH, SHELL, TERM and USER";
    let ran = sandbox.run(&["import", "--rewrite"]);
    ran.exits(0)
        .prints("-   ./bin/here")
        .prints("connect -- ./bin/here")
        .prints("env: TOKEN; disabled")
        .prints("from Cursor; disabled")
        .says(hint);
    fs::set_permissions(sandbox.path(CURSOR), fs::Permissions::from_mode(0o444)).unwrap();
    let ran = sandbox.run(&["import", "--rewrite"]);
    ran.exits(1).says("the file is read-only");
    assert!(!ran.stdout.contains("connect --"), "{}", ran.stdout);
    assert!(!ran.stderr.contains(hint), "{}", ran.stderr);
    fs::set_permissions(sandbox.path(CURSOR), fs::Permissions::from_mode(0o644)).unwrap();
    sandbox.run(&["import", "--rewrite", "--yes"]).exits(0);
    sandbox
        .run(&["import", "--restore"])
        .exits(0)
        .says("still has values of `env`, headers, arguments or addresses of off, which may be secrets");
    fs::set_permissions(sandbox.path(CURSOR), fs::Permissions::from_mode(0o444)).unwrap();
    let ran = sandbox.run(&["import", "--restore"]);
    ran.exits(1).says("the file is read-only");
    assert!(!ran.stdout.contains("./bin/here"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("no host's entry"), "{}", ran.stderr);
}

#[test]
fn an_own_file_that_cannot_be_written_costs_its_part_alone_and_announces_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write(OWN, r#"{"mcpServers": {}}"#);
    sandbox.write(
        CODEX,
        "[mcp_servers.more]\ncommand = \"more\"\nenv = { KEY = \"${UNSET_KEY}\" }\n",
    );
    fs::set_permissions(sandbox.path(OWN), fs::Permissions::from_mode(0o400)).unwrap();
    for line in [&["import"][..], &["import", "--yes"]] {
        let ran = sandbox.run(line);
        ran.exits(1)
            .prints("Codex  ")
            .prints("   more  more")
            .says("the file is read-only");
        for announced in ["+  more", "Mainstay  /"] {
            assert!(!ran.stdout.contains(announced), "{}", ran.stdout);
        }
        for promised in ["--yes", "UNSET_KEY"] {
            assert!(!ran.stderr.contains(promised), "{}", ran.stderr);
        }
    }
    let ran = sandbox.run(&["import", "--rewrite", "--yes"]);
    ran.exits(1)
        .says("the file is read-only")
        .prints("connect --env KEY -- more");
    assert!(
        read(&sandbox, CODEX).contains("connect"),
        "the host's file is written"
    );
    assert_eq!(read(&sandbox, OWN), r#"{"mcpServers": {}}"#);
}

#[test]
fn a_machine_without_hosts_says_so() {
    let sandbox = Sandbox::new();
    sandbox.run(&["import"]).exits(0).says(
        "no host's configuration was found; looked for: Claude Desktop, Claude Code, Cursor, VS Code, ",
    );
    sandbox
        .run(&["import", "--from", "zed,vscodium"])
        .exits(0)
        .says("looked for: VSCodium, Zed\n");
    // A file that cannot be read was found.
    sandbox.write(CODEX, "[mcp_servers.more]\ncommand = \"more\"\n");
    sandbox.write(CURSOR, "{ half");
    let ran = sandbox.run(&["import", "--from", "codex,zed,cursor,vscodium"]);
    ran.exits(1).says("looked for, and not found: VSCodium, Zed\n");
    let ran = sandbox.run(&["import", "--from", "codex"]);
    assert!(!ran.exits(0).stderr.contains("looked for"), "{}", ran.stderr);
}

#[test]
fn an_import_has_the_name_of_each_host_above_its_servers() {
    let sandbox = Sandbox::new();
    let servers = json!({ "servers": { "clock": { "command": "clock" } } }).to_string();
    for folder in ["Code", "Code - Insiders", "VSCodium"] {
        sandbox.write(&format!("home/.config/{folder}/User/mcp.json"), &servers);
    }
    let ran = sandbox.run(&["import"]);
    let said = shown(&sandbox, ran.exits(0));
    for heading in [
        "VS Code  DIR/home/.config/Code/User/mcp.json\n",
        "VS Code Insiders  DIR/home/.config/Code - Insiders/User/mcp.json\n",
        "VSCodium  DIR/home/.config/VSCodium/User/mcp.json\n",
    ] {
        assert!(said.contains(heading), "{said}");
    }
    assert!(
        said.contains("from VS Code, VS Code Insiders, VSCodium\n"),
        "{said}"
    );
}

#[test]
fn a_restore_names_servers_whose_arguments_or_addresses_hold_secrets() {
    let sandbox = Sandbox::new();
    let own = json!({
        "arguments": { "command": "a", "args": ["--token", SECRET] },
        "address": { "url": format!("https://web.example/mcp?key={SECRET}") },
        "plain": { "command": "a", "args": ["--port", "8080"] },
        "variable": { "command": "a", "args": ["--token", "${TOKEN}"], "env": { "KEY": "${KEY}" } },
        "open": { "url": "https://web.example/mcp" },
        "parameter": { "url": "https://web.example/mcp?key=${KEY}" },
    });
    sandbox.configure(&own);
    sandbox.write(CURSOR, r#"{ "mcpServers": { "clock": { "command": "clock" } } }"#);
    sandbox.run(&["import", "--rewrite", "--yes"]).exits(0);
    let ran = sandbox.run(&["import", "--restore"]);
    let said = &ran.exits(0).stderr;
    let (_, names) = said
        .split_once("arguments or addresses of ")
        .unwrap_or_else(|| panic!("{said}"));
    let (names, _) = names
        .split_once(", which may be secrets")
        .unwrap_or_else(|| panic!("{said}"));
    let mut names: Vec<_> = names.split(", ").collect();
    names.sort_unstable();
    assert_eq!(names, ["address", "arguments"]);
    assert!(!said.contains(SECRET), "{said}");
}

#[test]
fn a_server_is_added_and_removed_and_the_rest_of_the_file_stays() {
    let sandbox = Sandbox::new();
    let program = good()["command"].as_str().unwrap().to_owned();
    sandbox
        .run(&[
            "add",
            "demo",
            "--env",
            "TOKEN",
            "--env",
            "LEVEL=high",
            "--",
            &program,
            "demo-server",
        ])
        .exits(0)
        .says("added demo to ")
        .says("a new file");
    assert_eq!(
        own(&sandbox),
        json!({ "mcpServers": { "demo": {
            "command": program, "args": ["demo-server"], "env": { "TOKEN": "${TOKEN}", "LEVEL": "high" },
        } } })
    );
    let commented = "{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"x\", \"unknown\": 1 }, // first\n\t},\n}\n";
    sandbox.write(OWN, commented);
    sandbox
        .run(&[
            "add",
            "web",
            "--url",
            "https://web.example/mcp",
            "--header",
            "X-Key: ${KEY}",
            "--disabled",
        ])
        .exits(0)
        .says("the previous version is ");
    assert_eq!(
        read(&sandbox, OWN),
        commented.replace(
            "// first\n",
            "// first\n\t\t\"web\": {\n\t\t\t\"url\": \"https://web.example/mcp\",\n\t\t\t\"headers\": {\n\t\t\t\t\"X-Key\": \"${KEY}\"\n\t\t\t},\n\t\t\t\"enabled\": false\n\t\t},\n"
        )
    );
    assert_eq!(
        read(&sandbox, "home/.config/mainstay/mcp.json.previous"),
        commented
    );
    sandbox.run(&["remove", "web"]).exits(0).says("removed web from ");
    assert_eq!(read(&sandbox, OWN), commented);
}

#[test]
fn a_server_that_cannot_be_added_or_removed_changes_nothing() {
    let sandbox = Sandbox::with(&json!({ "files": good() }));
    let before = read(&sandbox, OWN);
    for (arguments, reason) in [
        (
            &["add", "files", "--", "x"][..],
            "there is a server \"files\" already",
        ),
        (
            &["remove", "fils"],
            "there is no server \"fils\"; did you mean \"files\"?",
        ),
        (
            &["add", "x"],
            "name a command behind `--`, or an address with --url",
        ),
        (&["add", "a__b", "--", "x"], "would not be valid"),
        (&["add", "a", "--url", "ftp://example.com"], "would not be valid"),
        (
            &["add", "a", "--url", "https://user:pw@example.com"],
            "a user name or a password",
        ),
        (
            &["add", "a", "--url", "https://e.example", "--header", "none"],
            "--header takes",
        ),
        (
            &["add", "a", "--header", "A: b", "--", "x"],
            "cannot be used with",
        ),
        (
            &["add", "a", "--bearer-token-env", "A", "--", "x"],
            "cannot be used with",
        ),
        (&["add", "a", "--env", "A=1", "--env", "A=2", "--", "x"], "twice"),
    ] {
        sandbox.run(arguments).exits(2).says(reason);
        assert_eq!(read(&sandbox, OWN), before, "{arguments:?}");
    }
    sandbox.write(OWN, "{\"mcpServers\": {");
    sandbox.run(&["add", "a", "--", "x"]).exits(2).says("not JSON");
    assert!(!Path::new(&sandbox.path("home/.config/mainstay/mcp.json.previous")).exists());
}
