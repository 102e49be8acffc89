//! The library as its users see it: fleets of servers in memory, as processes, and over HTTP.

mod calls;
mod catalog;
mod chaos;
mod http;
mod lifecycle;
mod partners;
mod processes;
#[cfg(feature = "tls")]
mod tls;
