//! How often each call was run, by what the servers wrote down.

use std::collections::HashMap;

/// The runs of calls at some servers, by their keys.
#[derive(Debug, Default)]
pub struct Runs<'a>(HashMap<(usize, &'a str), usize>);

impl<'a> Runs<'a> {
    /// Counts what is in the ledgers of these servers, the first of which is number 0.
    #[must_use]
    pub fn of(ledgers: &'a [Vec<String>]) -> Self {
        let mut runs: HashMap<(usize, &str), usize> = HashMap::new();
        for (server, ledger) in ledgers.iter().enumerate() {
            for line in ledger {
                if let Some(("call", call)) = line.split_once(' ') {
                    *runs.entry((server, call)).or_default() += 1;
                }
            }
        }
        Self(runs)
    }

    /// How often this server has run this tool with this key.
    #[must_use]
    pub fn count(&self, server: usize, tool: &str, key: &str) -> usize {
        let call = format!("{tool} {key}");
        self.0.get(&(server, call.as_str())).copied().unwrap_or(0)
    }
}
