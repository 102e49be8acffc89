//! Values as they are written in each syntax.

use super::value::ConfigValue;

/// The longest list that is written on one line.
const LINE_LIMIT: usize = 100;

/// A text in double quotes, valid in JSON, TOML and YAML alike.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = serde_json::Value::from(text).to_string();
    // TOML and YAML refuse these as they are; JSON takes both forms.
    for c in ['\u{7f}', '\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'] {
        if quoted.contains(c) {
            quoted = quoted.replace(c, &format!("\\u{:04x}", u32::from(c)));
        }
    }
    quoted
}

/// Texts in double quotes with commas between them.
pub(crate) fn quoted_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<_> = texts.into_iter().map(quoted).collect();
    texts.join(", ")
}

/// How lines are laid out.
#[derive(Clone, Copy)]
pub(crate) struct LineLayout<'a> {
    /// The white space before the line that the value begins on.
    pub(crate) indent: &'a str,
    /// What one more level is indented by.
    pub(crate) unit: &'a str,
    pub(crate) line_break: &'static str,
}

/// A value in JSON, objects over several lines.
pub(crate) fn json(value: &ConfigValue, layout: LineLayout<'_>) -> String {
    let inner = format!("{}{}", layout.indent, layout.unit);
    let deeper = LineLayout {
        indent: &inner,
        ..layout
    };
    let block = |open: char, lines: Vec<String>, close: char| {
        let LineLayout {
            indent, line_break, ..
        } = layout;
        let lines = lines.join(&format!(",{line_break}{inner}"));
        format!("{open}{line_break}{inner}{lines}{line_break}{indent}{close}")
    };
    match value {
        ConfigValue::List(items) => {
            let flow = json_flow(value);
            let is_flat = !items.iter().any(|item| matches!(item, ConfigValue::Table(_)));
            if is_flat && flow.len() <= LINE_LIMIT || items.is_empty() {
                return flow;
            }
            block('[', items.iter().map(|item| json(item, deeper)).collect(), ']')
        }
        ConfigValue::Table(entries) if !entries.is_empty() => {
            let line =
                |(name, value): &(String, ConfigValue)| format!("{}: {}", quoted(name), json(value, deeper));
            block('{', entries.iter().map(line).collect(), '}')
        }
        ConfigValue::Null
        | ConfigValue::Flag(_)
        | ConfigValue::Number(_)
        | ConfigValue::Text(_)
        | ConfigValue::Table(_) => json_flow(value),
    }
}

/// A value in JSON on one line; the same is YAML.
pub(crate) fn json_flow(value: &ConfigValue) -> String {
    match value {
        ConfigValue::Null => "null".to_owned(),
        ConfigValue::Flag(flag) => flag.to_string(),
        ConfigValue::Number(number) => number.clone(),
        ConfigValue::Text(text) => quoted(text),
        ConfigValue::List(items) => {
            let items: Vec<_> = items.iter().map(json_flow).collect();
            format!("[{}]", items.join(", "))
        }
        ConfigValue::Table(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(name, value)| format!("{}: {}", quoted(name), json_flow(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// A value in TOML, tables inline. `null` is left out.
pub(crate) fn toml(value: &ConfigValue) -> String {
    match value {
        ConfigValue::List(items) => {
            let items: Vec<_> = items.iter().map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        ConfigValue::Table(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .filter(|(_, value)| *value != ConfigValue::Null)
                .map(|(name, value)| format!("{} = {}", toml_key(name), toml(value)))
                .collect();
            if entries.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{ {} }}", entries.join(", "))
            }
        }
        ConfigValue::Null => quoted(""),
        ConfigValue::Flag(_) | ConfigValue::Number(_) | ConfigValue::Text(_) => json_flow(value),
    }
}

/// A table in TOML under its own heading.
pub(crate) fn toml_table(keys: &[&str], value: &ConfigValue, line_break: &str) -> String {
    let keys: Vec<_> = keys.iter().map(|key| toml_key(key)).collect();
    let mut table = format!("[{}]{line_break}", keys.join("."));
    if let ConfigValue::Table(entries) = value {
        for (name, value) in entries.iter().filter(|(_, value)| *value != ConfigValue::Null) {
            table += &format!("{} = {}{line_break}", toml_key(name), toml(value));
        }
    }
    table
}

/// A key in TOML.
pub(crate) fn toml_key(name: &str) -> String {
    if is_plain(name) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A key in YAML.
pub(crate) fn yaml_key(name: &str) -> String {
    // What begins with a letter and is no word of YAML's own needs no quotes.
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_plain(name) && begins && !is_word.contains(&name.to_ascii_lowercase().as_str()) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.chars().all(plain)
}
