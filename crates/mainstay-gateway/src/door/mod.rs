//! The doors: how clients come in. Each reads messages, hands them to the router, and knows the way back.

mod batch;
#[cfg(test)]
mod endless;
mod http;
mod outgoing;
mod stdio;

pub(crate) use http::Caller;
#[cfg(any(test, fuzzing))]
pub(crate) use http::fuzz as fuzz_http;
pub use http::{DoorError, HttpDoor};
pub use stdio::Arrival;
