//! Faults between a client and an HTTP server.

mod proxy;

pub use proxy::{Proxy, ProxyCounts};
