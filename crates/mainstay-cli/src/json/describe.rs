//! The document of `mainstay describe --json`.

use mainstay::catalog::PublicTool;
use serde::Serialize;

use super::VERSION;
use super::tools::Tool;

#[derive(Serialize)]
pub(crate) struct Described {
    version: u32,
    #[serde(flatten)]
    tool: Tool,
}

impl Described {
    pub(crate) fn of(tool: &PublicTool, is_stale: bool) -> Self {
        Self {
            version: VERSION,
            tool: Tool::of(tool, is_stale),
        }
    }
}
