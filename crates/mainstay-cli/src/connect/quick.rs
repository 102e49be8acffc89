//! The arguments of a bridge, read without the parser of the other commands.
//!
//! A host runs many bridges all day. The parser touches more than a megabyte of the program, which then stays resident in each of them. So
//! the plain forms are read here. Whatever else is on the command line, mistakes included, is left to the parser.

use mainstay::config::parse_duration;

use super::{ConnectArgs, EraChoice, ShareWith};

impl ConnectArgs {
    /// Reads `connect …`; `None` for what the parser must read.
    pub(crate) fn quick(mut words: impl Iterator<Item = String>) -> Option<Self> {
        if words.next()? != "connect" {
            return None;
        }
        let mut read = Self {
            server: None,
            env: Vec::new(),
            share: ShareWith::Yes,
            cwd: None,
            name: None,
            wait: None,
            url: None,
            bearer_token_env: None,
            era: None,
            command: Vec::new(),
        };
        let mut has_share = false;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" => {
                    read.command = words.collect();
                    // The parser says what is missing.
                    if read.command.is_empty() {
                        return None;
                    }
                    break;
                }
                "--env" => read.env.push(value(&mut words)?),
                "--cwd" if read.cwd.is_none() => read.cwd = Some(value(&mut words)?.into()),
                "--name" if read.name.is_none() => read.name = Some(value(&mut words)?),
                "--wait" if read.wait.is_none() => {
                    read.wait = Some(parse_duration(&value(&mut words)?).ok()?);
                }
                "--url" if read.url.is_none() => read.url = Some(value(&mut words)?),
                "--bearer-token-env" if read.bearer_token_env.is_none() => {
                    read.bearer_token_env = Some(value(&mut words)?);
                }
                "--era" if read.era.is_none() => {
                    read.era = Some(match value(&mut words)?.as_str() {
                        "legacy" => EraChoice::Legacy,
                        "modern" => EraChoice::Modern,
                        _other => return None,
                    });
                }
                "--share" if !has_share => {
                    has_share = true;
                    read.share = match value(&mut words)?.as_str() {
                        "yes" => ShareWith::Yes,
                        "never" => ShareWith::Never,
                        "roots" => ShareWith::Roots,
                        _other => return None,
                    };
                }
                server if !server.starts_with('-') && !server.is_empty() && read.server.is_none() => {
                    read.server = Some(word);
                }
                _other => return None,
            }
        }
        let is_plain = match (&read.server, &read.url, read.command.is_empty()) {
            (Some(_), None, true) => {
                let has_more = read.cwd.is_some() || read.name.is_some() || read.era.is_some();
                read.env.is_empty() && !has_more && !has_share
            }
            (None, Some(_), true) => read.env.is_empty() && read.cwd.is_none(),
            (None, None, _) => read.bearer_token_env.is_none(),
            (Some(_), Some(_), _) | (Some(_), None, false) | (None, Some(_), false) => false,
        };
        (is_plain && (read.url.is_some() || read.bearer_token_env.is_none())).then_some(read)
    }
}

/// The value of an option. One that looks like an option is left to the parser.
fn value(words: &mut impl Iterator<Item = String>) -> Option<String> {
    words.next().filter(|value| !value.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Command, CommandLine};

    #[test]
    fn what_is_read_here_is_read_by_the_parser_alike() {
        let lines: [&[&str]; 18] = [
            &[],
            &["files"],
            &["--wait", "90s", "files"],
            &["--", "npx", "-y", "--env", "x", "--"],
            &["--env", "A", "--env", "B", "--share", "roots", "--", "run"],
            &[
                "--cwd", "/srv", "--name", "n", "--share", "never", "--", "run", "--help",
            ],
            &["--url", "https://example.com/mcp", "--bearer-token-env", "TOKEN"],
            &[
                "--url",
                "https://example.com/mcp",
                "--share",
                "never",
                "--name",
                "n",
            ],
            &["--era", "modern", "--", "run"],
            // Left to the parser.
            &["files", "--era", "modern"],
            &["--share", "always", "--", "run"],
            &["--bearer-token-env", "TOKEN", "--", "run"],
            &["files", "--env", "A"],
            &["--url", "u", "--", "run"],
            &["--env=A", "--", "run"],
            &["--quiet", "--", "run"],
            &["--name", "--env", "--", "run"],
            &["--wait", "soon", "--", "run"],
        ];
        for (number, line) in lines.iter().enumerate() {
            let words = ["connect"].iter().chain(*line).map(ToString::to_string);
            let quick = ConnectArgs::quick(words.clone());
            assert_eq!(quick.is_some(), number < 9, "{line:?}");
            let Some(quick) = quick else { continue };
            let all = ["mainstay".to_owned()].into_iter().chain(words);
            let Ok(CommandLine {
                command: Command::Connect(parsed),
                ..
            }) = CommandLine::try_parse_from(all)
            else {
                panic!("the parser refuses {line:?}");
            };
            assert_eq!(quick, parsed, "{line:?}");
        }
        assert_eq!(ConnectArgs::quick(["wrap".to_owned()].into_iter()), None);
    }
}
