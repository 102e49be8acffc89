//! Logins: their store, their settings, and real ones at a real authorization server.

mod authorization_server;
mod configured;
mod hostile;
mod python_servers;
mod soak;
mod store;
mod support;
