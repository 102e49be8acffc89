//! Variables in a configuration: `${NAME}`, `${NAME:-default}`, and `$${` for a plain `${`.
//!
//! Names are looked up once, in the environment that was handed in; what comes out is not expanded again, so no value
//! can refer to another and no cycle can arise. A default counts when the variable is not set or empty, as in a shell,
//! and may hold variables of its own. `${env:NAME}`, which editors write, means `${NAME}`.

use super::report::Fault;
use super::target::Text;

/// How deep defaults may nest. A person needs two; the bound keeps a hostile file from using up the stack.
const MAX_NESTING: usize = 16;

/// How long an expanded text may grow: Linux passes no longer argument to a program.
const MAX_EXPANDED_BYTES: usize = 128 * 1024;

/// Variables that editors define for themselves.
const OF_EDITORS: [&str; 5] = [
    "workspaceFolder",
    "workspaceFolderBasename",
    "userHome",
    "workspaceRoot",
    "pathSeparator",
];

/// Where names are looked up.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a text cannot be expanded, and at which of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpandError {
    pub(super) at: usize,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    NotSet(String),
    Unterminated,
    NotAName,
    Prompt,
    TooDeep,
    TooLong,
}

/// Expands a text. Where a variable was used, the result shows what was written.
pub(super) fn expand(written: &str, lookup: Lookup<'_>) -> Result<Text, ExpandError> {
    let mut expansion = Expansion {
        text: written,
        at: 0,
        lookup,
        used: false,
    };
    let value = expansion.run(0, true)?;
    Ok(if expansion.used {
        Text::hidden(value, written)
    } else {
        Text::from(value)
    })
}

struct Expansion<'a> {
    text: &'a str,
    at: usize,
    lookup: Lookup<'a>,
    /// Whether a variable was met.
    used: bool,
}

impl Expansion<'_> {
    /// Expands up to the end of the text or, inside of a default, up to its `}`. Where the result is not wanted, a
    /// variable that is not set does no harm.
    fn run(&mut self, depth: usize, wanted: bool) -> Result<String, ExpandError> {
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            if rest.is_empty() || (depth > 0 && rest.starts_with('}')) {
                return Ok(value);
            }
            if rest.starts_with("$${") {
                value.push_str("${");
                self.at += 3;
            } else if rest.starts_with("${") {
                value.push_str(&self.variable(depth, wanted)?);
            } else {
                let plain = rest.char_indices().skip(1).find(|(_, c)| matches!(c, '$' | '}'));
                let end = plain.map_or(rest.len(), |(end, _)| end);
                value.push_str(&rest[..end]);
                self.at += end;
            }
            if value.len() > MAX_EXPANDED_BYTES {
                return Err(error(0, Kind::TooLong));
            }
        }
    }

    /// Expands the `${…}` that begins here.
    fn variable(&mut self, depth: usize, wanted: bool) -> Result<String, ExpandError> {
        let start = self.at;
        self.used = true;
        if depth >= MAX_NESTING {
            return Err(error(start, Kind::TooDeep));
        }
        let inside = &self.text[start + 2..];
        let (prefix, name) = name(inside);
        self.at = start + 2 + prefix + name.len();
        let value = (self.lookup)(name).filter(|_| !name.is_empty());
        let rest = &self.text[self.at..];
        if name.is_empty() || !(rest.starts_with('}') || rest.starts_with(":-")) {
            let kind = match inside {
                _ if !inside.contains('}') => Kind::Unterminated,
                _ if inside.starts_with("input:") => Kind::Prompt,
                _ => Kind::NotAName,
            };
            return Err(error(start, kind));
        }
        let value = if rest.starts_with('}') {
            value.or_else(|| (!wanted).then(String::new))
        } else {
            self.at += 2;
            let value = value.filter(|value| !value.is_empty());
            let default = self.run(depth + 1, wanted && value.is_none())?;
            value.or(Some(default))
        };
        if !self.text[self.at..].starts_with('}') {
            return Err(error(start, Kind::Unterminated));
        }
        self.at += 1;
        value.ok_or_else(|| error(start, Kind::NotSet(name.to_owned())))
    }
}

fn error(at: usize, kind: Kind) -> ExpandError {
    ExpandError { at, kind }
}

/// The name at the start of `inside`, and the length of the `env:` before it.
fn name(inside: &str) -> (usize, &str) {
    let plain = leading_name(inside);
    match inside.strip_prefix("env:").map(leading_name) {
        Some(after) if !after.is_empty() => ("env:".len(), after),
        Some(_) | None => (0, plain),
    }
}

fn leading_name(text: &str) -> &str {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    let name = &text[..end];
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        ""
    } else {
        name
    }
}

impl From<ExpandError> for Fault {
    fn from(error: ExpandError) -> Self {
        match error.kind {
            Kind::NotSet(name) if OF_EDITORS.contains(&name.as_str()) => Self::new(
                format!("the variable {name} is known to editors only"),
                "write what it stands for",
            ),
            Kind::NotSet(name) => Self::new(
                format!("the variable {name} is not set"),
                format!("set it, or give it a default: ${{{name}:-default}}"),
            ),
            Kind::Unterminated => Self::new(
                "`${` without its `}`",
                "close it, or write `$${` for a plain `${`",
            ),
            Kind::NotAName => Self::new(
                "`${` is not followed by the name of a variable",
                "use letters, digits and `_`, or write `$${` for a plain `${`",
            ),
            Kind::Prompt => Self::new(
                "`${input:…}` asks a person, which only editors do",
                "use a variable: ${NAME}",
            ),
            Kind::TooDeep => Self::new(
                format!("defaults nest deeper than {MAX_NESTING}"),
                "set the variable instead",
            ),
            Kind::TooLong => Self::from(format!("longer than {MAX_EXPANDED_BYTES} bytes when expanded")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ExpandError, Kind, MAX_EXPANDED_BYTES, MAX_NESTING, expand};

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/ann".into()),
            "EMPTY" => Some(String::new()),
            "TRICK" => Some("${HOME}".into()),
            "BIG" => Some("x".repeat(MAX_EXPANDED_BYTES / 2)),
            _ => None,
        }
    }

    fn value(written: &str) -> String {
        expand(written, &lookup).unwrap().value().to_owned()
    }

    fn error(written: &str) -> (usize, Kind) {
        let ExpandError { at, kind } = expand(written, &lookup).unwrap_err();
        (at, kind)
    }

    #[test]
    fn variables_defaults_and_escapes_expand() {
        for (written, expected) in [
            ("plain $HOME } text", "plain $HOME } text"),
            ("${HOME}/x", "/home/ann/x"),
            ("${env:HOME}", "/home/ann"),
            ("a${EMPTY}b", "ab"),
            ("${NOPE:-fallback}", "fallback"),
            ("${NOPE:-}", ""),
            ("${EMPTY:-fallback}", "fallback"),
            ("${HOME:-${NOPE}}", "/home/ann"),
            ("${NOPE:-${ALSO:-${HOME}}/y}z", "/home/ann/yz"),
            ("${env:-x}", "x"),
            ("$${HOME}", "${HOME}"),
            ("$$${HOME}", "$${HOME}"),
            ("${TRICK}", "${HOME}"),
            ("é${HOME}é", "é/home/anné"),
        ] {
            assert_eq!(value(written), expected, "{written}");
        }
    }

    #[test]
    fn only_a_text_with_a_variable_hides_its_value() {
        assert_eq!(expand("--t=${HOME}", &lookup).unwrap().shown(), "--t=${HOME}");
        assert_eq!(expand("$${x}", &lookup).unwrap().shown(), "${x}");
    }

    #[test]
    fn what_cannot_be_expanded_says_where_and_why() {
        assert_eq!(error("ab${NOPE}"), (2, Kind::NotSet("NOPE".into())));
        assert_eq!(error("${A:-${B}}"), (5, Kind::NotSet("B".into())));
        for unterminated in ["x${", "x${HOME", "x${HOME:-", "x${NOPE:-a", "x${HO ME"] {
            assert_eq!(error(unterminated), (1, Kind::Unterminated), "{unterminated}");
        }
        for no_name in ["${}", "${1A}", "${HO ME}", "${HOME:x}", "${:-x}"] {
            assert_eq!(error(no_name), (0, Kind::NotAName), "{no_name}");
        }
        assert_eq!(error("${input:token}"), (0, Kind::Prompt));
    }

    #[test]
    fn neither_depth_nor_length_grows_without_bound() {
        let nested = "${A:-".repeat(MAX_NESTING + 1) + &"}".repeat(MAX_NESTING + 1);
        assert_eq!(error(&nested).1, Kind::TooDeep);
        let hostile = "${A:-".repeat(500_000);
        assert_eq!(error(&hostile).1, Kind::TooDeep);
        assert_eq!(error("${BIG}${BIG}${BIG}").1, Kind::TooLong);
    }
}
