//! How the configuration wants a server's tools to be seen.

use std::fmt;

use crate::config::ToolView;

/// How one server's tools are seen by callers: which are shown, under which name, with which description.
///
/// A view changes what is published, never what the server is asked: a call goes out under the original name.
pub(crate) trait View: fmt::Debug + Send + Sync {
    /// Whether the tool is shown at all.
    fn admits(&self, tool: &str) -> bool;

    /// What the tool is called after the server's prefix.
    fn public_name<'a>(&'a self, tool: &'a str) -> &'a str;

    /// A description that takes the place of the server's own.
    fn describe(&self, tool: &str) -> Option<&str>;
}

/// Everything as the server says it.
impl View for () {
    fn admits(&self, _tool: &str) -> bool {
        true
    }

    fn public_name<'a>(&'a self, tool: &'a str) -> &'a str {
        tool
    }

    fn describe(&self, _tool: &str) -> Option<&str> {
        None
    }
}

/// What the configuration says.
impl View for ToolView {
    fn admits(&self, tool: &str) -> bool {
        ToolView::admits(self, tool)
    }

    fn public_name<'a>(&'a self, tool: &'a str) -> &'a str {
        ToolView::public_name(self, tool)
    }

    fn describe(&self, tool: &str) -> Option<&str> {
        ToolView::describe(self, tool)
    }
}
