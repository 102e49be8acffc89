//! The control API as its clients see it, over a unix socket and over TCP.

#[path = "../../../mainstay/tests/support/memory.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the library, which use more of it"
)]
mod memory;

mod admin;
mod commands;
mod events;
mod logins;
mod metrics;
mod openapi;
mod page;
mod recording;
mod refusing;
mod sessions;
mod status;
mod stderr;
mod support;
