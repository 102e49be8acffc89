//! What a person means by the words behind `call`, `describe`, `read` and `prompt`: which server, and which of its offers.

use anyhow::anyhow;
use mainstay::ServerConfig;
use mainstay::catalog::public_name;
use mainstay::config::nearest;

use crate::exit::CommandFailure;
use crate::load::{Setup, Source};
use crate::reach::{address, command_line};

/// The longest public name; one of this length may be cut, and then its server cannot be read from it.
const CUT_NAME: usize = 64;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Picked {
    /// The offer's name: public, or the server's own; or its uri.
    pub(crate) name: String,
    /// What stands behind it.
    pub(crate) rest: Vec<String>,
}

/// The kind of item, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    Tool,
    Prompt,
    Resource,
}

impl Sought {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }

    /// Whether a word in the second place is the name of an item, so that the first one is a server.
    fn is_name(self, word: &str) -> bool {
        match self {
            Self::Tool | Self::Prompt => !word.contains(['=', '{']) && word != "-",
            Self::Resource => true,
        }
    }
}

impl Picked {
    /// Reads the words, and leaves only those servers in the setup that may be meant: `SERVER NAME …` where the first word is
    /// a server's name, or else the public `NAME …`. Of a server on the command line only the name is asked.
    pub(crate) fn read(setup: &mut Setup, words: &[String], sought: Sought) -> Result<Self, CommandFailure> {
        let (first, rest) = words
            .split_first()
            .ok_or_else(|| CommandFailure::usage(anyhow!("name a {}", sought.word())))?;
        let picked = |name: &str, rest: &[String]| Self {
            name: name.to_owned(),
            rest: rest.to_vec(),
        };
        if matches!(setup.source, Source::Address | Source::Arguments) {
            return match rest.split_first() {
                Some((name, rest)) if sought.is_name(name) => {
                    if !setup.servers.iter().any(|server| server.name() == first) {
                        return Err(CommandFailure::usage(setup.only_one(first, name, sought)));
                    }
                    Ok(picked(name, rest))
                }
                Some(_) | None => Ok(picked(first, rest)),
            };
        }
        let is_server = setup.servers.iter().any(|server| server.name() == first);
        if is_server || setup.refused.contains(first) {
            setup.keep(std::slice::from_ref(first))?;
            return match rest.split_first() {
                Some((name, rest)) => Ok(picked(name, rest)),
                None => Err(CommandFailure::usage(anyhow!(
                    "name a {0} of server {first:?}: `mainstay tools --server {first}` lists what it offers",
                    sought.word()
                ))),
            };
        }
        if sought == Sought::Resource {
            if let [_uri] = rest {
                return Err(CommandFailure::usage(setup.unknown(first)));
            }
            return Ok(picked(first, rest));
        }
        let may_have = |server: &ServerConfig| {
            first.starts_with(&public_name(server.name(), "")) || first.len() == CUT_NAME
        };
        let names = setup.servers.iter().filter(|server| may_have(server));
        let names: Vec<_> = names.map(|server| server.name().to_owned()).collect();
        if names.is_empty() {
            return Err(CommandFailure::usage(setup.not_public(first, rest, sought)));
        }
        setup.keep(&names)?;
        Ok(picked(first, rest))
    }
}

impl Setup {
    /// The command that lists what the servers offer.
    pub(crate) fn listing(&self) -> String {
        let listing = "mainstay tools";
        match (&self.source, &self.servers[..]) {
            (Source::Arguments, [server]) => match command_line(server) {
                Some(command) => format!("{listing} -- {command}"),
                None => listing.to_owned(),
            },
            (Source::Address, [server]) => match address(server) {
                Some(address) => format!("{listing} --url {address}"),
                None => listing.to_owned(),
            },
            (Source::Arguments | Source::Address | Source::File { .. } | Source::Demo { .. }, _) => {
                listing.to_owned()
            }
        }
    }

    /// The first word is not the name of the one server on the command line.
    fn only_one(&self, first: &str, name: &str, sought: Sought) -> anyhow::Error {
        let what = sought.word();
        let server = self.servers.first().map_or("", ServerConfig::name);
        anyhow!(
            "there is no server {first:?}: the command line names the server, {server:?}; leave {first:?} out, and name the {what} \
             {name:?} alone"
        )
    }

    /// The first word is neither a server nor a public name.
    fn not_public(&self, first: &str, rest: &[String], sought: Sought) -> anyhow::Error {
        // A name in the second place: the first was meant to be a server.
        let names_server = rest.first().is_some_and(|word| sought.is_name(word));
        if names_server || !first.contains("__") {
            let what = sought.word();
            let unknown = self.unknown(first);
            return if names_server {
                unknown
            } else {
                anyhow!(
                    "{unknown}; a {what} is named as `server__{what}`, or as the server's name and its own"
                )
            };
        }
        self.unknown(first.split("__").next().unwrap_or(first))
    }
}

/// The offer that was meant, of one kind: by its public name, or by the server's own for it.
pub(crate) fn find<'c, T>(
    offers: &'c [mainstay::catalog::Offer<T>],
    name: &str,
    sought: Sought,
    listing: &str,
) -> anyhow::Result<&'c mainstay::catalog::Offer<T>> {
    let public = offers.iter().find(|offer| offer.name() == name);
    if let Some(offer) = public.or_else(|| offers.iter().find(|offer| offer.original() == name)) {
        return Ok(offer);
    }
    let what = sought.word();
    let known = offers.iter().flat_map(|offer| [offer.original(), offer.name()]);
    match nearest(name, known) {
        Some(meant) => Err(anyhow!("there is no {what} {name:?}; did you mean {meant:?}?")),
        None => Err(anyhow!("there is no {what} {name:?}; `{listing}` lists them")),
    }
}
