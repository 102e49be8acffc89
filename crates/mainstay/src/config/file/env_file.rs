//! Files of variables, `NAME=value` on each line, as editors read them for `envFile`.
//!
//! Values may be in single quotes (taken as they are) or in double quotes (with `\n`, `\t`, `\"` and `\\`), and go on over
//! several lines inside of them. `export` before a name and `#` comments are passed over. No variable is expanded.

/// The largest file of variables that is read; Linux passes no larger environment to a program.
pub(super) const MAX_ENV_FILE_BYTES: usize = 1024 * 1024;

/// The variables of a file, in order, and the lines that hold none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EnvFile {
    pub(super) variables: Vec<(String, String)>,
    pub(super) bad_lines: Vec<usize>,
}

impl EnvFile {
    /// Reads the variables of a text.
    pub(super) fn parse(text: &str) -> Self {
        let mut file = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rest = text;
        let (mut line_number, mut counted) = (1, 0);
        while !rest.is_empty() {
            let at = text.len() - rest.len();
            line_number += text[counted..at].matches('\n').count();
            counted = at;
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            rest = after;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = line.strip_prefix("export ").map_or(line, str::trim_start);
            let Some((name, value)) = line.split_once('=').filter(|(name, _)| is_name(name.trim_end()))
            else {
                file.bad_lines.push(line_number);
                continue;
            };
            let value = value.trim_start();
            let value = match value.chars().next() {
                Some(quote @ ('"' | '\'' | '`')) => {
                    // A quoted value may go on after the line, so it is read from the text itself.
                    let begins = at + text[at..].find(quote).unwrap_or_default() + 1;
                    match closing(&text[begins..], quote) {
                        Some(end) => {
                            let inside = &text[begins..begins + end];
                            let after = &text[begins + end + 1..];
                            rest = after.split_once('\n').map_or("", |(_, after)| after);
                            if quote == '"' {
                                unescaped(inside)
                            } else {
                                inside.to_owned()
                            }
                        }
                        None => without_comment(value).to_owned(),
                    }
                }
                Some(_) | None => without_comment(value).to_owned(),
            };
            file.variables.push((name.trim_end().to_owned(), value));
        }
        file
    }
}

/// Where the quote ends, counted from the character after it began.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return Some(at);
        }
        escaped = quote == '"' && c == '\\' && !escaped;
    }
    None
}

fn unescaped(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            value.push(c);
            continue;
        }
        match characters.next() {
            Some('n') => value.push('\n'),
            Some('r') => value.push('\r'),
            Some('t') => value.push('\t'),
            Some(c @ ('"' | '\\' | '$')) => value.push(c),
            Some(c) => value.extend(['\\', c]),
            None => value.push('\\'),
        }
    }
    value
}

/// A value without quotes ends at a `#` that follows a space.
fn without_comment(value: &str) -> &str {
    let comment = value.find(" #").or_else(|| value.find("\t#"));
    let value = &value[..comment.unwrap_or(value.len())];
    if value.starts_with('#') {
        ""
    } else {
        value.trim_end()
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    !name.is_empty() && name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::EnvFile;

    fn variables(text: &str) -> Vec<(String, String)> {
        EnvFile::parse(text).variables
    }

    #[test]
    fn each_way_to_write_a_value_is_understood() {
        let text = "\u{feff}# mine\nA=1\n\nexport B = two words  \nC=\"say \\\"hi\\\"\\n$A\" # why\nD='a\\n#b'\nE=x#y # z\nF=\nG=\"two\nlines\"\nH=p=q\r\nI='it\nJ=1\n";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "say \"hi\"\n$A"),
            ("D", "a\\n#b"),
            ("E", "x#y"),
            ("F", ""),
            ("G", "two\nlines"),
            ("H", "p=q"),
            ("I", "'it"),
            ("J", "1"),
        ];
        let expected: Vec<_> = expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        assert_eq!(variables(text), expected);
    }

    #[test]
    fn a_line_that_holds_no_variable_is_counted_and_passed_over() {
        let file = EnvFile::parse("A=\"x\ny\"\nnonsense\n1B=2\n=3\nC=4");
        assert_eq!(file.bad_lines, [3, 4, 5]);
        assert_eq!(file.variables.len(), 2);
    }
}
