//! Edits of random texts: each means what it should, keeps every byte that it need not change, and is undone to the byte.

use std::path::Path;

use crate::bridge;
use crate::text::{ConfigValue, EditableText};

const ROUNDS: u64 = 1000;
const PROGRAM: &str = "/opt/my tools/mainstay";

/// A small generator of random numbers: the same texts on every run.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// The numbers below `count` in a random order.
    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for n in (1..count).rev() {
            order.swap(n, self.below(n + 1));
        }
        order
    }
}

/// A text with servers, and the keys that lead to each.
struct RandomFile {
    name: &'static str,
    text: String,
    group: &'static str,
    servers: Vec<String>,
}

const NAMES: [&str; 6] = ["a", "files", "my server", "ü", "x.y", "-z"];
const STRINGS: [&str; 9] = [
    r#""""#,
    r#""npx""#,
    r#""a \"b\" // c""#,
    r#""/*""#,
    r#""[,]""#,
    r#""\u00e9\\""#,
    r#""ü""#,
    "\"# no\"",
    r#""--""#,
];

fn json(random: &mut Random) -> RandomFile {
    let space = |random: &mut Random| {
        random
            .pick(&[
                "",
                "",
                " ",
                "\n",
                "\n\t",
                "\r\n  ",
                " // c, }\n",
                "/* ] , */",
                "   ",
            ])
            .to_owned()
    };
    let mut servers = Vec::new();
    let mut entries = Vec::new();
    let count = random.below(4);
    for n in random.order(NAMES.len()).into_iter().take(count) {
        let mut keys = vec![format!(
            "\"command\"{}:{}{}",
            space(random),
            space(random),
            random.pick(&STRINGS[1..])
        )];
        if !random.chance(3) {
            let mut items: Vec<String> = Vec::new();
            for _ in 0..random.below(4) {
                items.push(format!(
                    "{}{}{}",
                    space(random),
                    random.pick(&STRINGS),
                    space(random)
                ));
            }
            let trailing = if !items.is_empty() && random.chance(4) {
                ","
            } else {
                ""
            };
            keys.push(format!(
                "\"args\":{}[{}{trailing}{}]",
                space(random),
                items.join(","),
                space(random)
            ));
        }
        if random.chance(2) {
            keys.push(format!(
                "\"env\":{}{{\"K\":{}}}",
                space(random),
                random.pick(&STRINGS)
            ));
        }
        if random.chance(2) {
            keys.push("\"unknown\": [1, {\"args\": [], \"command\": null}]".to_owned());
        }
        let order = random.order(keys.len());
        let keys: Vec<String> = order
            .iter()
            .map(|&n| format!("{}{}{}", space(random), keys[n], space(random)))
            .collect();
        let trailing = if random.chance(4) { "," } else { "" };
        entries.push(format!(
            "{}\"{}\":{}{{{}{trailing}{}}}{}",
            space(random),
            NAMES[n],
            space(random),
            keys.join(","),
            space(random),
            space(random)
        ));
        servers.push(NAMES[n].to_owned());
    }
    let trailing = if !entries.is_empty() && random.chance(4) {
        ","
    } else {
        ""
    };
    let group = format!(
        "\"mcpServers\":{}{{{}{trailing}{}}}",
        space(random),
        entries.join(","),
        space(random)
    );
    let other = "\"other\": {\"mcpServers\": {}}".to_owned();
    let text = match random.below(3) {
        0 => format!("{}{{{group}{}}}{}", space(random), space(random), space(random)),
        1 => format!("{{{other},{}{group}}}", space(random)),
        _ => format!("\u{feff}{{{group},{}{other}}}\n", space(random)),
    };
    RandomFile {
        name: "mcp.json",
        text,
        group: "mcpServers",
        servers,
    }
}

fn toml(random: &mut Random) -> RandomFile {
    let end = |random: &mut Random| {
        random
            .pick(&[
                "\n",
                "\n",
                " # c ] = [x]\n",
                "\n\n",
                "\n# [not.a.table]\n",
                "\r\n",
            ])
            .to_owned()
    };
    let mut text = random
        .pick(&["", "model = 'x'\n", "# top\nn = [\n 1, # one\n]\n"])
        .to_owned();
    let mut servers = Vec::new();
    let count = random.below(4);
    for n in random.order(NAMES.len()).into_iter().take(count) {
        let name = mainstay_key(NAMES[n]);
        let indent = random.pick(&["", "", "  ", "\t"]);
        text += &format!("{indent}[mcp_servers.{name}]{}", end(random));
        let command = match random.below(3) {
            0 => "'npx'",
            _ => random.pick(&STRINGS[1..]),
        };
        let mut lines = vec![format!("{indent}command = {command}")];
        if !random.chance(3) {
            let items: Vec<_> = (0..random.below(4)).map(|_| random.pick(&STRINGS)).collect();
            let between = random.pick(&[",", ", ", ",\n  ", ", # c\n"]);
            let trailing = if !items.is_empty() && random.chance(3) {
                ",\n"
            } else {
                ""
            };
            lines.push(format!("{indent}args = [{}{trailing}]", items.join(between)));
        }
        if random.chance(3) {
            lines.push("env = { K = 'v' }".to_owned());
        }
        for n in random.order(lines.len()) {
            text += &lines[n];
            text += &end(random);
        }
        if random.chance(4) && !text.contains("K = 'v'") {
            text += &format!("[mcp_servers.{name}.env]{}L = \"v\"{}", end(random), end(random));
        }
        servers.push(NAMES[n].to_owned());
    }
    if random.chance(3) {
        text += "[tui]\nx = 1";
    } else if random.chance(2) {
        text = text.trim_end().to_owned();
    }
    RandomFile {
        name: "config.toml",
        text,
        group: "mcp_servers",
        servers,
    }
}

fn mainstay_key(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if plain {
        name.to_owned()
    } else {
        format!("\"{name}\"")
    }
}

fn yaml(random: &mut Random) -> RandomFile {
    let end = |random: &mut Random| {
        random
            .pick(&["\n", "\n", " # c: [x]\n", "\n\n", "\n# mcpServers:\n"])
            .to_owned()
    };
    let unit = random.pick(&["  ", "    "]);
    let mut text = random.pick(&["", "x: 1\n", "# top\ny: [1,\n  2]\n"]).to_owned();
    text += &format!("mcpServers:{}", end(random));
    let mut servers = Vec::new();
    let count = 1 + random.below(3);
    for n in random.order(NAMES.len()).into_iter().take(count) {
        text += &format!("{unit}\"{}\":{}", NAMES[n], end(random));
        let command = match random.below(4) {
            0 => "npx",
            1 => "'it''s'",
            2 => "/usr/bin/env",
            _ => random.pick(&STRINGS[1..]),
        };
        let mut keys = vec![format!("command: {command}")];
        match random.below(4) {
            0 => {}
            1 => keys.push("args: []".to_owned()),
            2 => keys.push(format!("args: [{}, plain]", random.pick(&STRINGS))),
            _ => {
                let dash = random.pick(&["- ", "  - ", "-   "]);
                let mut lines = format!("args:{}", end(random));
                for n in 0..=random.below(3) {
                    let item = random.pick(&["plain", "-y", "'q'", "\"q\""]);
                    let break_line = if n == 0 { "" } else { "\n" };
                    lines += &format!("{break_line}{unit}{unit}{dash}{item}");
                }
                keys.push(lines);
            }
        }
        if random.chance(2) {
            keys.push("env: {K: v}".to_owned());
        }
        for n in random.order(keys.len()) {
            text += &format!("{unit}{unit}{}{}", keys[n], end(random));
        }
        servers.push(NAMES[n].to_owned());
    }
    if random.chance(2) {
        text += "z: 1\n";
    } else if random.chance(2) {
        text = text.trim_end().to_owned();
    }
    RandomFile {
        name: "config.yaml",
        text,
        group: "mcpServers",
        servers,
    }
}

fn is_subsequence(part: &str, whole: &str) -> bool {
    let mut rest = whole.bytes();
    part.bytes().all(|byte| rest.any(|other| other == byte))
}

fn each(make: fn(&mut Random) -> RandomFile, hold: fn(&RandomFile, &mut Random) -> usize) -> usize {
    let mut held = 0;
    for seed in 1..=ROUNDS {
        let mut random = Random::new(seed);
        let file = make(&mut random);
        assert!(
            EditableText::new(Path::new(file.name), &file.text).tree().is_ok() || file.text.trim().is_empty(),
            "seed {seed}: the generator makes valid texts: {:?}",
            file.text
        );
        held += hold(&file, &mut random);
    }
    held
}

/// Wraps all servers, and turns them back in another order. Returns how many could be wrapped.
fn wrapping_is_undone(file: &RandomFile, random: &mut Random) -> usize {
    let mut text = EditableText::new(Path::new(file.name), &file.text);
    let mut wrapped = Vec::new();
    for n in random.order(file.servers.len()) {
        let keys = [file.group, file.servers[n].as_str()];
        let options = ["--env".to_owned(), "K".to_owned()];
        match bridge::wrap(&mut text, &keys, PROGRAM, &options) {
            Ok(()) => wrapped.push(n),
            Err(error) => assert!(file.name.ends_with("yaml"), "{error}: {:?}", file.text),
        }
    }
    let before_undo = text.whole();
    for n in random.order(wrapped.len()) {
        let keys = [file.group, file.servers[wrapped[n]].as_str()];
        bridge::undo(&mut text, &keys).unwrap_or_else(|error| panic!("{error}: {before_undo:?}"));
    }
    assert_eq!(text.whole(), file.text, "{before_undo:?}");
    wrapped.len()
}

/// Adds a server, removes it again, and removes another. Returns how many edits were made.
fn edits_keep_all_other_bytes(file: &RandomFile, random: &mut Random) -> usize {
    if file.text.trim().is_empty() {
        return 0;
    }
    let server = ConfigValue::from(
        serde_json::json!({"command": "npx", "args": ["-y", "ü \"x\"\u{7f}"], "env": {"A B": "1"}}),
    );
    let mut text = EditableText::new(Path::new(file.name), &file.text);
    let mut edits = 0;
    match text.set(&[file.group, "new one"], &server) {
        Ok(()) => {
            edits += 1;
            let added = text.whole();
            // An empty object of JSON may lose the spaces in it.
            assert!(
                is_subsequence(&file.text, &added) || file.servers.is_empty(),
                "{:?}\n{added:?}",
                file.text
            );
            text.remove(&[file.group, "new one"])
                .unwrap_or_else(|error| panic!("{error}: {added:?}"));
            assert!(is_subsequence(&text.whole(), &added), "{added:?}");
        }
        Err(error) => assert!(!file.name.ends_with("json"), "{error}: {:?}", file.text),
    }
    if !file.servers.is_empty() {
        let mut text = EditableText::new(Path::new(file.name), &file.text);
        let name = file.servers[random.below(file.servers.len())].as_str();
        match text.remove(&[file.group, name]) {
            Ok(removed) => {
                edits += 1;
                assert!(removed);
                // A block of YAML without its last key becomes an empty mapping.
                let removed = text.whole().replacen("mcpServers: {}", "mcpServers:", 1);
                assert!(is_subsequence(&removed, &file.text), "{:?}", file.text);
            }
            Err(error) => assert!(!file.name.ends_with("json"), "{error}: {:?}", file.text),
        }
    }
    edits
}

#[test]
fn wrapped_entries_of_random_json_are_turned_back_to_the_same_bytes() {
    assert!(each(json, wrapping_is_undone) > 1000);
}

#[test]
fn wrapped_entries_of_random_toml_are_turned_back_to_the_same_bytes() {
    assert!(each(toml, wrapping_is_undone) > 1000);
}

#[test]
fn wrapped_entries_of_random_yaml_are_turned_back_to_the_same_bytes() {
    assert!(each(yaml, wrapping_is_undone) > 1000);
}

#[test]
fn edits_of_random_json_keep_all_other_bytes() {
    assert!(each(json, edits_keep_all_other_bytes) > 1300);
}

#[test]
fn edits_of_random_toml_keep_all_other_bytes() {
    assert!(each(toml, edits_keep_all_other_bytes) > 1000);
}

#[test]
fn edits_of_random_yaml_keep_all_other_bytes() {
    assert!(each(yaml, edits_keep_all_other_bytes) > 1000);
}
