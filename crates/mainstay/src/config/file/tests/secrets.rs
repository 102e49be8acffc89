//! What must not be seen is not seen.

use super::{read, rendered};
use crate::config::{Secret, ServerConfig, Target};

const SECRET: &str = "hunter2";

#[test]
fn secrets_are_in_no_debug_and_no_display() {
    let configuration = read(
        r#"{ "mcpServers": {
          "good": {
            "command": "${TOKEN}", "args": ["--key=${TOKEN}", "--mode=plain"], "cwd": "/${TOKEN}",
            "env": { "KEY": "hunter2-literal", "TOKEN": "${TOKEN}" }
          },
          "bad": {
            "command": ["hunter2"], "args": [{"k": "hunter2"}, "hunter2 ${", "hunter2 ${NOPE}"], "cwd": "",
            "env": { "A": "hunter2 ${NOPE}", "B": ["hunter2"], "C": "hunter2 ${", "D": "hunter2${a b}", "E": "hunter2\u0000",
                     "D": "hunter2" }
          }
        } }"#,
    );
    let shown = format!(
        "{configuration:?} {configuration:#?} {:?}",
        rendered(&configuration)
    );
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(
        shown.contains("--key=${TOKEN}") && shown.contains("--mode=plain"),
        "{shown}"
    );
    assert_eq!(configuration.servers[0].identity().to_string().len(), 64);
    assert!(
        rendered(&configuration).len() >= 9,
        "{:?}",
        rendered(&configuration)
    );
}

#[test]
fn a_server_built_in_rust_hides_its_secrets_as_well() {
    let builder = ServerConfig::stdio("s", "run")
        .env("K", SECRET)
        .secret_arg(SECRET)
        .arg("open");
    let shown = format!("{builder:?} {:?}", builder.clone().build().unwrap());
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(shown.contains("open"));
    let invalid = ServerConfig::stdio("s", "")
        .env("K=", SECRET)
        .secret_arg("hunter2\0")
        .build()
        .unwrap_err();
    let shown = format!("{invalid:?} {invalid}");
    assert!(!shown.contains(SECRET), "{shown}");
}

#[test]
fn a_secret_that_is_written_into_an_argument_is_hidden_and_warned_of() {
    let configuration = read(
        r#"{ "mcpServers": { "files": {
          "command": "docker", "args": ["run", "-e", "TOKEN=hunter2", "image", "--api-key=hunter2", "--mode=plain"]
        } } }"#,
    );
    let shown = format!("{configuration:?} {:?}", rendered(&configuration));
    assert!(
        !shown.contains(SECRET) && shown.contains("--mode=plain"),
        "{shown}"
    );
    let said = "this argument holds a secret in plain text; put the secret into a variable, and write ${NAME} in its place";
    for key in ["mcpServers.files.args[2]", "mcpServers.files.args[4]"] {
        assert!(
            rendered(&configuration)
                .iter()
                .any(|problem| problem.ends_with(&format!("{key}: {said}"))),
            "{:?}",
            rendered(&configuration)
        );
    }
    let Target::Stdio(program) = configuration.servers[0].target() else {
        panic!("a program");
    };
    assert_eq!(program.args()[4].value(), "--api-key=hunter2");
}

#[test]
fn a_secret_debugs_as_stars() {
    assert_eq!(format!("{:?}", Secret::new(SECRET)), "***");
}

#[test]
fn the_value_of_a_variable_that_is_no_address_is_not_repeated() {
    for (written, said) in [
        (
            "${KEY}",
            "not an address of HTTP; begin the address with https:// or http://",
        ),
        (
            "${KEY}/mcp:8080",
            "not an address of HTTP; begin the address with https:// or http://",
        ),
        (
            "x${KEY}",
            "not an address of HTTP; begin the address with https:// or http://",
        ),
        (
            "${TOKEN}",
            "not an address: relative URL without a base; begin it with https:// or http://",
        ),
        (
            "http://${TOKEN}:${KEY}/",
            "not an address: invalid port number; write https://HOST/PATH",
        ),
        (
            "localhost:${TOKEN}",
            r#""localhost" is not a scheme of HTTP; begin the address with https:// or http://"#,
        ),
    ] {
        let configuration = read(&format!(
            r#"{{ "mcpServers": {{ "s": {{ "url": "{written}" }} }} }}"#
        ));
        let shown = format!("{configuration:?} {:?}", rendered(&configuration));
        assert!(!shown.contains(SECRET), "{written}: {shown}");
        let problems = rendered(&configuration);
        assert!(problems[0].ends_with(said), "{written}: {problems:?}");
    }
}
