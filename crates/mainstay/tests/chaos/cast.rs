//! Who is in the fleet: servers of every transport, in both eras.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay::config::{ServerBuilder, Target};
use mainstay::{Policy, ServerConfig};
use mainstay_lifecycle::Probe;
use mainstay_partner::free_port;
use mainstay_testkit::chaos::{ChaosHost, ChaosServerKind, Hosts};
use mainstay_testkit::{FaultyServer, Ledger, Script};

use crate::support::{Stage, quick};
use crate::{DEADLINE, SERVERS, name};

pub(crate) struct Cast {
    stage: Stage,
    ledgers: Vec<Ledger>,
    hosts: Hosts,
}

impl Cast {
    /// All servers, those over HTTP up and running.
    pub(crate) async fn assemble(stage: Stage) -> Self {
        let ledgers: Vec<_> = (0..SERVERS).map(|_| Ledger::temporary()).collect();
        let mut hosts = Vec::new();
        for (server, ledger) in ledgers.iter().enumerate() {
            let kind = ChaosServerKind::of(server);
            if let Some(http) = kind.http(server) {
                let mut script = Script::new().speaks(kind.speaks(server));
                script.ledger = Some(ledger.path().to_owned());
                hosts.push((server, ChaosHost::start(free_port(), script, http).await));
            }
        }
        let hosts = Hosts::new(hosts);
        Self {
            stage,
            ledgers,
            hosts,
        }
    }

    /// Configures a server; another version of it is another server.
    pub(crate) fn config(&self, server: usize, version: usize) -> ServerConfig {
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
    pub(crate) fn host(&self, server: usize) -> Option<&ChaosHost> {
        self.hosts.get(server)
    }

    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What the processes of each server did.
    pub(crate) fn lines(&self) -> Vec<Vec<String>> {
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
