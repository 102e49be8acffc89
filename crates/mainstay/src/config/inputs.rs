//! What `${input:ID}` stands for: VS Code asks a person, Mainstay takes a variable or the default.

use super::document::Node;

/// The inputs that a file declares.
pub(super) struct Inputs<'a>(Vec<Input<'a>>);

struct Input<'a> {
    id: &'a str,
    default: Option<&'a str>,
}

impl<'a> Inputs<'a> {
    /// The inputs of an array. A server that uses an input without an `id` or a default is refused.
    pub(super) fn of(node: Option<&'a Node<'a>>) -> Self {
        let inputs = node.and_then(Node::as_array).unwrap_or_default();
        let inputs = inputs.iter().filter_map(Node::as_object).filter_map(|input| {
            Some(Input {
                id: input.text("id")?,
                default: input.text("default"),
            })
        });
        Self(inputs.collect())
    }

    /// Whether an input of this name is declared.
    pub(super) fn declares(&self, id: &str) -> bool {
        self.0.iter().any(|input| input.id == id)
    }

    /// The default of an input.
    pub(super) fn default(&self, id: &str) -> Option<&'a str> {
        self.0.iter().find(|input| input.id == id)?.default
    }
}

/// The variable that answers for a person: `MAINSTAY_INPUT_API_KEY` for the input `api-key`.
pub(super) fn variable(id: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    format!("MAINSTAY_INPUT_{}", id.chars().map(plain).collect::<String>())
}
