//! Configuration files: `mcpServers` files and those of other programs, as JSON, TOML or YAML.
//!
//! [`locate`] finds a file, and [`Configuration::load`] reads it. `syntax` parses the text into a tree, `layout` detects
//! whose format it is and finds the servers, and `entry` reads one server through `fields`, `expand` and `settings`. The
//! values go to the builder that embedders use too, so both pass the same checks.

mod bounded;
mod configuration;
mod entry;
mod env_file;
mod expand;
mod fields;
mod filters;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod host;
mod keys;
mod layout;
mod locate;
mod parse;
mod report;
mod schema;
mod settings;
pub mod source;
mod syntax;

#[cfg(test)]
mod tests;

pub use configuration::{ConfigError, Configuration};
pub use host::Host;
pub use locate::{ConfigOrigin, Located, locate};
pub use schema::json_schema;
