//! The document of `mainstay describe --json`.

use mainstay::catalog::PublicTool;
use serde::Serialize;

use super::VERSION;
use super::tools::ToolDocument;

#[derive(Serialize)]
pub(crate) struct DescribedDocument {
    version: u32,
    #[serde(flatten)]
    tool: ToolDocument,
}

impl DescribedDocument {
    pub(crate) fn of(tool: &PublicTool, is_stale: bool) -> Self {
        Self {
            version: VERSION,
            tool: ToolDocument::of(tool, is_stale),
        }
    }
}
