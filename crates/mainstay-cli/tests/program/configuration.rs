use serde_json::json;

use crate::sandbox::{Sandbox, good, missing};

#[test]
fn the_file_and_how_it_was_found_are_said() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let user = sandbox.path("home/.config/mainstay/mcp.json");
    let found = format!(
        "using {} (found in the user's configuration directory)",
        user.display()
    );
    sandbox.run(&["tools"]).exits(0).says(&found);
    let named = format!("using {} (named by --config)", user.display());
    sandbox
        .run(&["tools", "--config", user.to_str().unwrap()])
        .exits(0)
        .says(&named);
    let mut by_variable = sandbox.command(&["tools"]);
    let child = by_variable.env("MAINSTAY_CONFIG", &user).spawn().unwrap();
    crate::sandbox::finish(child)
        .exits(0)
        .says("(named by MAINSTAY_CONFIG)");
}

#[test]
fn a_file_of_another_program_is_used_as_that_program_means_it_and_its_format_is_said() {
    let sandbox = Sandbox::new();
    let good = good();
    let toml = format!(
        "model = \"x\"\n[mcp_servers.codex]\ncommand = {}\nargs = {}\nenabled_tools = [\"echo\"]\n",
        good["command"], good["args"]
    );
    let yaml = format!(
        "extensions:\n  goose:\n    type: stdio\n    cmd: {}\n    args: {}\n    enabled: true\n",
        good["command"], good["args"]
    );
    for (name, text, format) in [("config.toml", toml, "Codex"), ("config.yaml", yaml, "Goose")] {
        let file = sandbox.write(name, &text);
        let using = format!(
            "using {} (named by --config, in the format of {format})",
            file.display()
        );
        let ran = sandbox.run(&["tools", "--json", "--config", file.to_str().unwrap()]);
        let document = ran.exits(0).json();
        assert_eq!(document["configuration"]["format"], format);
        sandbox
            .run(&["check", "--config", file.to_str().unwrap()])
            .exits(0)
            .says(&using);
    }
}

#[test]
fn a_file_of_the_working_directory_is_mentioned_and_never_used() {
    let sandbox = Sandbox::new();
    let file = sandbox.write(
        "work/.mcp.json",
        &json!({ "mcpServers": { "trap": missing() } }).to_string(),
    );
    let ran = sandbox.run(&["check"]);
    ran.exits(0)
        .says(&format!("not used: {}", file.display()))
        .prints("demo");
    assert!(!ran.stdout.contains("trap"));
}

#[test]
fn a_file_that_is_named_and_missing_is_wrong_usage() {
    for command in [&["check"][..], &["tools"], &["call", "demo", "echo"]] {
        let mut line = command.to_vec();
        line.extend(["--config", "nowhere.json"]);
        let ran = Sandbox::new().run(&line);
        ran.exits(2)
            .says("error: ")
            .says("nowhere.json: the file named by --config does not exist");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_mistake_is_shown_with_its_place_and_costs_one_server() {
    let sandbox = Sandbox::new();
    let good = good();
    let text =
        format!("{{\"mcpServers\": {{\n  \"good\": {good},\n  \"typo\": {{ \"comand\": \"cat\" }}\n}}}}");
    let file = sandbox.write("bad.json", &text);
    let ran = sandbox.run(&["check", "--config", file.to_str().unwrap()]);
    ran.exits(2)
        .says(&format!(
            "error: {}:3:3: mcpServers.typo: there is no `command`",
            file.display()
        ))
        .says(&format!(
            "warning: {}:3:13: mcpServers.typo.comand: unknown key",
            file.display()
        ))
        .prints("✔  good    connected")
        .prints("1 of 2 servers up; not used: typo");
    sandbox
        .run(&["call", "typo", "echo", "--config", file.to_str().unwrap()])
        .exits(2)
        .says("server \"typo\" is not used, for the errors in its configuration");
}

#[test]
fn a_file_that_is_not_json_is_wrong_usage_with_its_place() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("bad.json", "{\n  \"mcpServers\": oops\n}");
    let ran = sandbox.run(&["check", "--config", file.to_str().unwrap()]);
    ran.exits(2)
        .says(&format!("{}:2:", file.display()))
        .says("not JSON");
}

#[test]
fn wrong_arguments_are_wrong_usage() {
    for line in [
        &["chekc"][..],
        &["check", "--timeout", "soon"],
        &["call", "demo"],
        &[],
    ] {
        let ran = Sandbox::new().run(line);
        ran.exits(2);
        assert_eq!(ran.stdout, "");
    }
    Sandbox::new()
        .run(&["check", "--timeout", "soon"])
        .says("not a duration");
}

#[test]
fn help_names_every_exit_code() {
    let ran = Sandbox::new().run(&["--help"]);
    for line in [
        "0    all is well",
        "1    something",
        "2    the arguments",
        "3    the call",
        "4    the call",
        "130",
        "143",
    ] {
        ran.prints(line);
    }
}
