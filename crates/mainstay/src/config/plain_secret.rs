//! Finds secrets that stand in plain text in arguments, and makes the text that is shown without them.
//!
//! Three things give a secret away: the name before it (`--api-key=…`, `-e TOKEN=…`, `Authorization: …`), its own
//! beginning (`sk-…`, `ghp_…`), and its place in an address (a password, a parameter). A path, a switch such as `true`, and
//! a variable are no secrets.

use serde_json::{Map, Value};

use super::target::ConfigText;

/// What is shown in place of a secret.
const HIDDEN: &str = "***";

/// The last word of a name whose value is a secret.
const SECRET_WORDS: [&str; 19] = [
    "apikey",
    "apitoken",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "pwd",
    "secret",
    "secretkey",
    "secrets",
    "token",
    "accesskey",
];

/// Words before `key` that make it a secret. Without one of them a key may be a column, a file or a certificate.
const KEY_WORDS: [&str; 8] = [
    "access",
    "account",
    "api",
    "auth",
    "encryption",
    "secret",
    "service",
    "signing",
];

/// How the tokens of well-known services begin.
const PREFIXES: [&str; 20] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "hf_",
    "npm_",
    "pypi-",
    "lin_api_",
    "ntn_",
    "AKIA",
    "AIza",
];

/// Characters that follow such a beginning, at least.
const SHORTEST_TOKEN: usize = 12;

/// Values that are switches, whatever their name says.
const SWITCHES: [&str; 7] = ["true", "false", "yes", "no", "none", "null", "stdin"];

/// Hides the secrets in arguments. Returns the places of those that held one.
pub(super) fn hide_in_args(args: &mut [ConfigText]) -> Vec<usize> {
    let shown = {
        let words: Vec<&str> = args.iter().map(ConfigText::shown).collect();
        in_words(&words)
    };
    let mut found = Vec::new();
    for (place, (arg, shown)) in args.iter_mut().zip(shown).enumerate() {
        if let Some(shown) = shown {
            *arg = ConfigText::hidden(arg.value(), shown);
            found.push(place);
        }
    }
    found
}

/// Each word as it may be shown; `None` where it holds no secret.
fn in_words(words: &[&str]) -> Vec<Option<String>> {
    let before = std::iter::once("").chain(words.iter().copied());
    let pairs = before.zip(words.iter().copied());
    pairs
        .map(|(before, word)| {
            let is_value =
                !word.starts_with('-') && is_option(before) && is_secret(option_name(before), word);
            if is_value {
                Some(HIDDEN.to_owned())
            } else {
                in_word(word)
            }
        })
        .collect()
}

fn in_word(word: &str) -> Option<String> {
    // Names may follow each other: `--env=TOKEN=…`.
    let mut at = 0;
    while let Some((name, value)) = word[at..].split_once('=') {
        if !is_name(option_name(name)) {
            break;
        }
        at += name.len() + "=".len();
        if is_secret(option_name(name), value) {
            return Some(format!("{}{HIDDEN}", &word[..at]));
        }
    }
    let (names, value) = word.split_at(at);
    in_value(value).map(|shown| format!("{names}{shown}"))
}

fn in_value(value: &str) -> Option<String> {
    if value.starts_with('{') {
        return holds_secret(&serde_json::from_str(value).ok()?).then(|| format!("{{{HIDDEN}}}"));
    }
    if let Some(shown) = in_header(value) {
        return Some(shown);
    }
    if value.contains(' ') {
        let words: Vec<&str> = value.split(' ').collect();
        let shown = in_words(&words);
        let is_found = shown.iter().any(Option::is_some);
        let words = words.into_iter().zip(shown);
        let words: Vec<_> = words
            .map(|(word, shown)| shown.unwrap_or_else(|| word.to_owned()))
            .collect();
        return is_found.then(|| words.join(" "));
    }
    if is_token(value) {
        return Some(HIDDEN.to_owned());
    }
    in_address(value)
}

/// `Authorization: Bearer abc`, as it is given to programs that make requests.
fn in_header(word: &str) -> Option<String> {
    let (name, value) = word.split_once(':').filter(|(name, _)| is_name(name))?;
    let value = value.trim_start();
    if value.starts_with("//") || !is_secret(name, value) {
        return None;
    }
    Some(match value.split_once(' ') {
        Some((scheme, _)) => format!("{name}: {scheme} {HIDDEN}"),
        None => format!("{name}: {HIDDEN}"),
    })
}

/// The password and the parameters of an address.
fn in_address(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    let password = password(place);
    let is_found = |parameter: &str| {
        let (name, value) = parameter.split_once('=')?;
        is_secret(name, value).then(|| format!("{name}={HIDDEN}"))
    };
    let has_parameter = query.is_some_and(|query| query.split('&').any(|part| is_found(part).is_some()));
    if password.is_none() && !has_parameter {
        return None;
    }
    let mut shown = format!("{scheme}://{}", password.as_deref().unwrap_or(place));
    if let Some(query) = query {
        let parts = query.split('&');
        let parts: Vec<_> = parts
            .map(|part| is_found(part).unwrap_or_else(|| part.to_owned()))
            .collect();
        shown.push('?');
        shown.push_str(&parts.join("&"));
    }
    Some(shown)
}

/// `user:password@host/path` without the password.
fn password(place: &str) -> Option<String> {
    let authority = place.split('/').next()?;
    let (user_info, _) = authority.rsplit_once('@')?;
    let (user, password) = user_info.split_once(':')?;
    let host = &place[user_info.len()..];
    (!password.is_empty() && !is_variable(password)).then(|| format!("{user}:{HIDDEN}{host}"))
}

fn holds_secret(object: &Map<String, Value>) -> bool {
    object.iter().any(|(name, value)| match value {
        Value::String(value) => is_secret(name, value) || is_token(value),
        Value::Object(inner) => holds_secret(inner),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    })
}

/// Whether a value of this name is a secret.
fn is_secret(name: &str, value: &str) -> bool {
    is_secret_name(name)
        && !value.is_empty()
        && value != HIDDEN
        && !is_variable(value)
        && !["/", "./", "../", "~/"]
            .iter()
            .any(|start| value.starts_with(start))
        && !SWITCHES.contains(&value.to_ascii_lowercase().as_str())
}

fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let mut words = words.iter().rev().map(String::as_str);
    match (words.next(), words.next()) {
        (Some("key"), Some(before)) => KEY_WORDS.contains(&before),
        (Some(last), _) => SECRET_WORDS.contains(&last),
        (None, _) => false,
    }
}

/// The words of `api-key`, `API_KEY` and `apiKey`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = !c.is_ascii_alphanumeric() || (was_lower && c.is_ascii_uppercase());
        if begins {
            words.push(String::new());
        }
        was_lower = c.is_ascii_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a word begins as the tokens of a well-known service do.
fn is_token(word: &str) -> bool {
    let is_of_token = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    PREFIXES.iter().any(|prefix| {
        word.strip_prefix(prefix).is_some_and(|rest| {
            rest.len() >= SHORTEST_TOKEN
                && rest.chars().all(is_of_token)
                && rest.contains(|c: char| c.is_ascii_digit())
        })
    })
}

/// Whether what was written stands for something else.
fn is_variable(value: &str) -> bool {
    value.starts_with('$')
        || ["${", "{env:", "{file:"]
            .iter()
            .any(|start| value.contains(start))
}

fn is_option(word: &str) -> bool {
    word.starts_with('-') && is_name(option_name(word))
}

fn option_name(word: &str) -> &str {
    word.trim_start_matches('-')
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::{ConfigText, hide_in_args};

    fn shown(args: &[&str]) -> Vec<String> {
        let mut args: Vec<ConfigText> = args.iter().copied().map(ConfigText::from).collect();
        let values: Vec<_> = args.iter().map(|arg| arg.value().to_owned()).collect();
        hide_in_args(&mut args);
        assert!(
            args.iter().map(ConfigText::value).eq(&values),
            "what is passed on stays"
        );
        args.iter().map(|arg| arg.shown().to_owned()).collect()
    }

    #[test]
    fn a_secret_is_known_by_its_name_its_beginning_or_its_place_in_an_address() {
        for (written, expected) in [
            (&["--api-key=sk-1"][..], &["--api-key=***"][..]),
            (&["--token", "abc", "more"], &["--token", "***", "more"]),
            (
                &["-e", "GITHUB_TOKEN=abc", "image"],
                &["-e", "GITHUB_TOKEN=***", "image"],
            ),
            (
                &["-eTOKEN=abc", "--env=DB_PASSWORD=x"],
                &["-eTOKEN=***", "--env=DB_PASSWORD=***"],
            ),
            (&["--apiKey", "abc"], &["--apiKey", "***"]),
            (
                &["--header", "Authorization: Bearer abc"],
                &["--header", "Authorization: Bearer ***"],
            ),
            (&["X-API-Key:abc"], &["X-API-Key: ***"]),
            (&["sk-proj-0123456789abcdef"], &["***"]),
            (&["postgres://ann:hunter2@db/x"], &["postgres://ann:***@db/x"]),
            (
                &["--dsn=postgres://ann:hunter2@db/x"],
                &["--dsn=postgres://ann:***@db/x"],
            ),
            (
                &["https://x.example/mcp?a=1&exaApiKey=abc"],
                &["https://x.example/mcp?a=1&exaApiKey=***"],
            ),
            (&[r#"{"braveApiKey":"abc"}"#], &["{***}"]),
            (
                &["-c", "export TOKEN=abc; run --password x"],
                &["-c", "export TOKEN=*** run --password ***"],
            ),
        ] {
            assert_eq!(shown(written), expected, "{written:?}");
        }
    }

    #[test]
    fn a_word_of_many_names_uses_up_no_stack() {
        let hostile = "a=".repeat(500_000);
        assert_eq!(shown(&[&hostile]), [hostile]);
    }

    #[test]
    fn what_is_no_secret_is_shown_as_it_is_written() {
        for written in [
            &["--token-file=/run/token", "--max-tokens=4096", "--key", "tls.pem"][..],
            &["--token", "${TOKEN}", "--token=$TOKEN", "--password={env:X}"],
            &[
                "--secret",
                "/run/secret",
                "--cookie=false",
                "--token",
                "--verbose",
            ],
            &["-e", "TOKEN", "-e", "LOG_LEVEL=debug", "--sort-key=name"],
            &[
                "https://x.example/mcp?a=1",
                "postgres://ann@db/x",
                "http://x.example:80/",
            ],
            &[
                "sk-short",
                "hf_hub",
                "-y",
                "@scope/package@1.2.3",
                "{not json",
                r#"{"a":1}"#,
            ],
            &["a:b", "C:\\x", "two words", ""],
        ] {
            assert_eq!(shown(written), written);
        }
    }
}
