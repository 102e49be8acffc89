//! The program as a person or a script meets it: the real binary, its output, its exit codes, and what it leaves behind.

#[path = "../../../mainstay-gateway/tests/http/clients.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the gateway, which use more of it"
)]
mod clients;
#[path = "../../../mainstay-gateway/tests/http/wire.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the gateway, which use more of it"
)]
mod wire;

mod admin;
mod bad_server;
mod behind;
mod bounded;
mod browser;
mod call;
mod check;
mod configuration;
mod controlling;
mod daemon;
mod demo_server;
mod doctor;
mod draining;
mod everyday;
mod first_run;
mod host;
mod hostile;
mod http;
mod hygiene;
mod import;
mod introduction;
mod isolation;
mod killing;
mod leaving;
mod logging;
mod login;
mod memory;
mod metrics;
mod mistakes;
mod outliving;
mod packaging;
mod ping;
mod real_clients;
mod recording;
mod reloading;
mod sandbox;
mod schemas;
mod service;
mod serving;
mod terminal;
mod tools;
mod top;
mod trace_conventions;
mod traces;
mod watchdog;
mod wrap;
