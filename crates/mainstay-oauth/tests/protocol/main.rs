//! The protocol as a driver sees it: scripted servers answer, a scripted person agrees.

mod authentication;
mod bad_input;
mod conformance;
mod discovery;
mod grants;
mod random_input;
mod registration;
mod renewal;
mod secrets;
mod support;
