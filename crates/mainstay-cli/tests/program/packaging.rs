//! What packages and editors take from the program: the schema, completions, manual pages.

use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, good};

#[test]
fn the_schema_takes_a_real_file_and_refuses_a_misspelt_key() {
    let schema = Sandbox::new().run(&["schema"]).exits(0).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let file = |server: Value| json!({ "$schema": "./schema.json", "mcpServers": { "good": server } });
    assert!(validator.is_valid(&file(good())));
    let mut misspelt = good();
    misspelt["retsart"] = json!("never");
    assert!(!validator.is_valid(&file(misspelt)));
}

#[test]
fn bash_completes_commands_and_options() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["completions", "bash"]);
    let script = sandbox.write("completions.bash", &ran.exits(0).stdout);
    let complete = |words: &str, current: usize| {
        let ask = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={current}; _mainstay mainstay \"${{COMP_WORDS[{current}]}}\" ''; \
             echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &ask])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("mainstay doct", 1), "doctor");
    assert_eq!(complete("mainstay doctor --js", 2), "--json");
    let all = complete("mainstay ''", 1);
    assert!(all.contains("serve") && all.contains("--config"), "{all}");
}

#[test]
fn zsh_and_fish_have_completions_of_every_command_and_a_shell_without_is_refused() {
    let sandbox = Sandbox::new();
    for (shell, begins) in [("zsh", "#compdef mainstay"), ("fish", "")] {
        let ran = sandbox.run(&["completions", shell]);
        ran.exits(0).prints("doctor").prints("serve").prints("wrap");
        assert!(ran.stdout.starts_with(begins));
    }
    sandbox.run(&["completions", "tcsh"]).exits(2).says("tcsh");
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    sandbox.run(&["--help"]).exits(0).prints("\n  man ");
    sandbox
        .run(&["man"])
        .exits(0)
        .prints(".TH mainstay 1")
        .prints("Exit codes");
    let directory = sandbox.path("man");
    std::fs::create_dir(&directory).unwrap();
    let ran = sandbox.run(&["man", "--directory", directory.to_str().unwrap()]);
    assert_eq!(ran.exits(0).stdout, "");
    let mut pages: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort_unstable();
    for page in [
        "mainstay.1",
        "mainstay-check.1",
        "mainstay-doctor.1",
        "mainstay-serve.1",
    ] {
        assert!(pages.iter().any(|found| found == page), "{page} in {pages:?}");
    }
    let serve = std::fs::read_to_string(directory.join("mainstay-serve.1")).unwrap();
    assert!(
        serve.contains(".TH mainstay-serve 1") && serve.contains("\\-\\-listen"),
        "{serve}"
    );
    sandbox
        .run(&["man", "--directory", "/no/such/directory"])
        .exits(1)
        .says("cannot write /no/such/directory/mainstay.1");
}
