//! What of an address may be seen.
//!
//! People write passwords and keys into addresses. A variable is shown as it was written; of what was written out, the
//! name and password before the host and the values of the query are not shown.

use crate::config::target::Text;

const HIDDEN: &str = "***";

/// The same address, shown without what may be a secret.
pub(super) fn without_secrets(url: Text) -> Text {
    // Only a file has variables: what was built in Rust holds `${` by chance, if at all.
    let has_variables = url.shown.is_some();
    let is_variable = |part: &str| has_variables && part.contains("${");
    let shown = masked(url.shown(), is_variable);
    if shown == url.value {
        return Text::from(shown);
    }
    Text::hidden(url.value, shown)
}

fn masked(url: &str, is_variable: impl Fn(&str) -> bool) -> String {
    let (before_fragment, fragment) = match url.split_once('#') {
        Some((before, _)) => (before, "#…"),
        None => (url, ""),
    };
    let (path, query) = match before_fragment.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (before_fragment, None),
    };
    let authority = path.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = path[authority..]
        .find(['/', '\\'])
        .map_or(path.len(), |end| authority + end);
    let mut shown = match path[authority..end].rsplit_once('@') {
        Some((login, host)) if !is_variable(login) => {
            format!("{}{HIDDEN}@{host}{}", &path[..authority], &path[end..])
        }
        Some(_) | None => path.to_owned(),
    };
    if let Some(query) = query {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) if !value.is_empty() && !is_variable(value) => format!("{name}={HIDDEN}"),
            Some(_) => pair.to_owned(),
            None if pair.is_empty() || is_variable(pair) => pair.to_owned(),
            None => HIDDEN.to_owned(),
        });
        shown.push('?');
        shown.push_str(&pairs.collect::<Vec<_>>().join("&"));
    }
    shown + fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_or_a_key_in_an_address_is_not_shown() {
        for (written, shown) in [
            ("https://mcp.example/mcp", "https://mcp.example/mcp"),
            ("https://ann:hush@mcp.example/a@b", "https://***@mcp.example/a@b"),
            ("https://ann:hu@sh@mcp.example", "https://***@mcp.example"),
            (
                "https://mcp.example/?key=hush&x=&hush",
                "https://mcp.example/?key=***&x=&***",
            ),
            ("https://mcp.example/mcp#hush", "https://mcp.example/mcp#…"),
            ("ann:hush@mcp.example", "***@mcp.example"),
            ("not an address", "not an address"),
        ] {
            assert_eq!(without_secrets(Text::from(written)).shown(), shown);
            assert_eq!(without_secrets(Text::from(written)).value(), written);
        }
    }

    #[test]
    fn a_variable_stays_as_it_was_written_and_what_stands_beside_it_is_hidden() {
        let written = "https://${LOGIN}@mcp.example/${PATH}?key=${KEY}&other=hush";
        let url = Text::hidden("https://ann:hush@mcp.example/hush?key=hush&other=hush", written);
        let shown = "https://${LOGIN}@mcp.example/${PATH}?key=${KEY}&other=***";
        assert_eq!(without_secrets(url).shown(), shown);
    }
}
