//! Logins: their store, their settings, and real ones at a real authorization server.

mod authorization_server;
mod configured;
mod hostile;
mod soak;
mod store;
mod support;
