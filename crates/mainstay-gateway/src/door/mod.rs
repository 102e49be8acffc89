//! The doors: how clients connect. Each door reads messages, passes them to the router, and writes back what it answers.

mod batch;
#[cfg(test)]
mod endless;
mod http;
mod outgoing;
mod request;
mod stdio;

pub(crate) use http::HttpCaller;
#[cfg(any(test, fuzzing))]
pub(crate) use http::fuzz as fuzz_http;
pub use http::{
    DoorAddress, DoorError, DoorTokens, HttpDoor, HttpListener, HttpMount, MountBody, TokenChanges,
};
pub use stdio::{ClientInput, StreamEnd};
