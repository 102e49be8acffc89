//! The clients: which there are, what each can do, and how it is made to do it.

use std::fmt;

use mainstay_partner::Clients;
use serde_json::Value;

use super::server::{Step, Thing};
use super::way::Home;
use super::{inspector, script};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Inspector,
    Python,
    TypeScript,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A client that speaks one era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) family: Family,
    pub(crate) era: Era,
}

impl Family {
    pub(crate) const ALL: [Self; 3] = [Self::Inspector, Self::Python, Self::TypeScript];

    pub(crate) fn clients(self) -> [Client; 2] {
        [Era::Legacy, Era::Modern].map(|era| Client { family: self, era })
    }
}

impl Client {
    /// The Inspector's command line shows no progress, and answers no server.
    pub(crate) fn can(self, thing: Thing) -> bool {
        match self.family {
            Family::Python | Family::TypeScript => true,
            Family::Inspector => match thing {
                Thing::List | Thing::Call | Thing::Prompts | Thing::Resources => true,
                Thing::Progress | Thing::Elicitation | Thing::Sampling => false,
            },
        }
    }

    /// Does these steps with the server at `target`: what it tells of each, or what kept it from telling.
    pub(crate) fn perform(
        self,
        home: &Home,
        clients: &Clients,
        target: &Value,
        steps: &[Step],
    ) -> Vec<Result<Value, String>> {
        match self.family {
            Family::Inspector => inspector::perform(self.era, home, clients, target, steps),
            Family::Python => {
                let mut python = home.command(&clients.python);
                python.arg(clients.scripts.join("python_client.py"));
                script::perform(python, self.era, target, steps)
            }
            Family::TypeScript => {
                let mut node = home.command(&clients.node);
                node.arg(home.script(clients, "ts_client.mjs"));
                script::perform(node, self.era, target, steps)
            }
        }
    }
}

impl Era {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// The version that a client of this era and the gateway agree on.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Family::Inspector => "Inspector CLI",
            Family::Python => "Python SDK",
            Family::TypeScript => "TypeScript SDK",
        };
        write!(formatter, "{family}, {}", self.era.version())
    }
}
