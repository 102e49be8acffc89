//! The configuration that one running Mainstay follows and edits.

mod editing;
mod switching;
