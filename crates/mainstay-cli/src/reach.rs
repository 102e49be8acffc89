//! How a server is reached, for a person to see; secrets stay variables.

use mainstay::ServerConfig;
use mainstay::config::Target;

/// The address of a server over HTTP.
pub(crate) fn address(config: &ServerConfig) -> Option<String> {
    match config.target() {
        Target::Http(target) => {
            let url = target.url().shown().to_owned();
            Some(match target.unix_socket() {
                Some(_) => format!("{url} (at a unix-domain socket)"),
                None => url,
            })
        }
        _ => None,
    }
}

/// The command line of a server that is a program, as a shell would take it.
pub(crate) fn command_line(config: &ServerConfig) -> Option<String> {
    match config.target() {
        Target::Stdio(program) => {
            let words = std::iter::once(program.command()).chain(program.args());
            let words: Vec<_> = words.map(|word| quoted(word.shown())).collect();
            Some(words.join(" "))
        }
        // What is not a program cannot be run by hand.
        _ => None,
    }
}

/// A word as a shell would take it. Variables stay variables: the shell has them too.
fn quoted(word: &str) -> String {
    if word.contains("${") {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        literal(word)
    }
}

/// A word that a shell takes as it stands, whatever is in it.
pub(crate) fn literal(word: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(bare) {
        word.to_owned()
    } else if word.contains(char::is_control) {
        format!("$'{}'", word.chars().map(escaped).collect::<String>())
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A character between `$'` and `'`, where a shell reads escapes. A control character would not be shown on a screen.
fn escaped(c: char) -> String {
    match c {
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        '\'' => r"\'".to_owned(),
        '\\' => r"\\".to_owned(),
        c if c.is_control() => c
            .to_string()
            .bytes()
            .map(|byte| format!(r"\x{byte:02x}"))
            .collect(),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        for (word, shown) in [
            ("npx", "npx"),
            ("--root=/srv/a", "--root=/srv/a"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a\nit's \\ \u{1b}", r"$'a\nit\'s \\ \x1b'"),
            ("--token=${TOKEN}", r#""--token=${TOKEN}""#),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
