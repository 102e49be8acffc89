//! The faulty servers as processes.

mod http;
mod stdio;
