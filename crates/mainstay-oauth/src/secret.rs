//! Text that must not appear in logs, errors or `Debug` output.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A token, code, verifier, password or request body. `Debug` hides the text; there is no `Display`.
///
/// Serialization writes the text: the store has to keep it. The store decides how the file is protected.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the request it belongs to.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_text() {
        let secret = SecretText::new("hunter2");
        assert_eq!(format!("{secret:?}"), "SecretText(…)");
        assert_eq!(secret.expose(), "hunter2");
    }
}
