//! The configuration files of MCP hosts and of Mainstay itself: read, edited so that every byte outside the changed
//! entries stays, and restored.

pub mod bridge;
pub mod file;
pub mod text;
