//! The control API as its clients see it, over a unix socket and over TCP.

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
