//! The program as a person or a script meets it: the real binary, its output, its exit codes, and what it leaves behind.

mod call;
mod check;
mod configuration;
mod host;
mod http;
mod isolation;
mod leaving;
mod ping;
mod sandbox;
mod terminal;
mod tools;
mod wrap;
