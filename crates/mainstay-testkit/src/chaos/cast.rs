//! Who is in the fleet: servers of every transport, in both eras.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay::config::{ServerBuilder, Target};
use mainstay::lifecycle::Probe;
use mainstay::{Policy, ServerConfig};

use super::hosts::{ChaosHost, Hosts};
use super::kind::ChaosServerKind;
use super::{DEADLINE, name};
use crate::faulty_server::FaultyServer;
use crate::fleet::{Stage, quick};
use crate::http::Port;
use crate::ledger::Ledger;
use crate::script::Script;

/// All servers of a chaos test.
pub struct Cast {
    stage: Stage,
    /// They keep the ports of servers that are down from other programs.
    _ports: Vec<Port>,
    ledgers: Vec<Ledger>,
    hosts: Hosts,
}

impl Cast {
    /// So many servers, those over HTTP up and running.
    pub async fn assemble(stage: Stage, servers: usize) -> Self {
        let ledgers: Vec<_> = (0..servers).map(|_| Ledger::temporary()).collect();
        let (mut hosts, mut ports) = (Vec::new(), Vec::new());
        for (server, ledger) in ledgers.iter().enumerate() {
            let kind = ChaosServerKind::of(server);
            if let Some(http) = kind.http(server) {
                let mut script = Script::new().speaks(kind.speaks(server));
                script.ledger = Some(ledger.path().to_owned());
                let port = Port::free().expect("a free port");
                hosts.push((server, ChaosHost::start(port.number(), script, http).await));
                ports.push(port);
            }
        }
        let hosts = Hosts::new(hosts);
        Self {
            stage,
            _ports: ports,
            ledgers,
            hosts,
        }
    }

    /// Configures a server; another version of it is another server.
    pub fn config(&self, server: usize, version: usize) -> ServerConfig {
        let kind = ChaosServerKind::of(server);
        match self.host(server) {
            Some(host) => {
                // Nothing says which dialect it speaks.
                let url = format!("{}?version={version}", host.url(kind.path()));
                impatient(ServerConfig::http(name(server), url))
            }
            None => {
                let faulty = FaultyServer::new().script(|script| script.speaks(kind.speaks(server)));
                let config = self
                    .stage
                    .server_with(&name(server), faulty, &self.ledgers[server]);
                impatient(config.env("VERSION", version.to_string()))
            }
        }
    }

    /// Where a server over HTTP runs.
    pub fn host(&self, server: usize) -> Option<&ChaosHost> {
        self.hosts.get(server)
    }

    /// How many there are.
    pub fn servers(&self) -> usize {
        self.ledgers.len()
    }

    /// Where their processes are found.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What the processes of each server did.
    pub fn lines(&self) -> Vec<Vec<String>> {
        self.ledgers.iter().map(Ledger::lines).collect()
    }
}

fn impatient(config: ServerBuilder<impl Into<Target>>) -> ServerConfig {
    let config = config.policy(impatient_policy()).call_timeout(DEADLINE);
    config.build().unwrap()
}

/// A silent server is found out and replaced within the run.
fn impatient_policy() -> Policy {
    let mut policy = Policy {
        probe: Some(Probe {
            after_silence: Duration::from_millis(300),
            timeout: Duration::from_millis(400),
            misses: NonZeroU32::new(2).unwrap(),
        }),
        relist_pause: Duration::from_millis(50),
        ..quick()
    };
    policy.limits.list = Duration::from_secs(2);
    policy
}
