//! An authorization server that has forgotten the registration of this program.

use std::process::Stdio;

use mainstay_partner::{PythonFramework, PythonProtectedServer, free_port};
use serde_json::json;

use crate::sandbox::{Ran, Sandbox, finish};

fn log_in(sandbox: &Sandbox, server: &PythonProtectedServer, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(arguments);
    command.env("BROWSER", server.browser()).stdin(Stdio::null());
    finish(command.spawn().unwrap())
}

#[test]
fn a_login_that_nobody_finishes_names_the_command_that_registers_again_and_it_helps() {
    let port = free_port();
    let Some(running) = PythonProtectedServer::start(PythonFramework::Sdk, port) else {
        return;
    };
    let sandbox = Sandbox::with(&json!({ "search": { "url": running.resource } }));
    log_in(&sandbox, &running, &["login", "search"]).exits(0);
    drop(running);
    let running = PythonProtectedServer::start(PythonFramework::Sdk, port).expect("it was there before");
    let in_vain = log_in(&sandbox, &running, &["login", "search", "--timeout", "500ms"]);
    in_vain
        .exits(1)
        .says("if the browser says that the client is unknown")
        .says("the login was not finished within 500ms")
        .says("`mainstay login search --register-again`");
    let again = log_in(&sandbox, &running, &["login", "search", "--register-again"]);
    again.exits(0);
    assert!(!again.stderr.contains("--register-again"), "{}", again.stderr);
    sandbox.run(&["call", "search", "echo"]).exits(0).prints("ok");
    let out = sandbox.run(&["logout", "search"]);
    out.exits(0).prints("the registration of the client is forgotten");

    sandbox.configure(&json!({ "search": { "url": running.resource, "oauth": { "client_id": "mine" } } }));
    let configured = sandbox.run(&["login", "search", "--register-again"]);
    configured.exits(2).says("names its client (mine)");
}
