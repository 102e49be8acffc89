//! awaken's own MCP client behind `mainstay connect`, while its server is killed. `cargo xtask awaken` builds what the tests need.
#![doc = include_str!("../../../docs/awaken.md")]

#[cfg(test)]
mod behind_mainstay;
#[cfg(test)]
mod orders;
