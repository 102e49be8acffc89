//! rmcp's client with supervised servers: real rmcp servers, and scripted ones where a server must misbehave.

#![expect(
    deprecated,
    reason = "sampling, roots and log levels are deprecated, and must pass all the same"
)]

mod client;
mod ending;
mod passing;
mod surviving;
