//! Where servers over HTTP run. They are not Mainstay's children: the test starts them again when they die, on the same
//! port and with none of their old sessions, and there is a network in between.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::http::{FaultyHttpProcess, HttpScript, Proxy};
use crate::script::Script;

/// How often the landlord looks for the dead.
const ROUND: Duration = Duration::from_millis(10);

/// All hosts, and the landlord who sees to them. Dropping it ends all their processes.
#[derive(Debug)]
pub struct Hosts {
    hosts: Arc<BTreeMap<usize, ChaosHost>>,
    over: Arc<AtomicBool>,
    landlord: Option<JoinHandle<()>>,
}

impl Hosts {
    /// Sees to these hosts, each under the number of its server.
    #[must_use]
    pub fn new(hosts: impl IntoIterator<Item = (usize, ChaosHost)>) -> Self {
        let hosts: Arc<BTreeMap<_, _>> = Arc::new(hosts.into_iter().collect());
        let over = Arc::new(AtomicBool::new(false));
        let landlord = thread::spawn({
            let (hosts, over) = (hosts.clone(), over.clone());
            move || {
                while !over.load(Ordering::Relaxed) {
                    hosts.values().for_each(ChaosHost::revive);
                    thread::sleep(ROUND);
                }
            }
        });
        Self {
            hosts,
            over,
            landlord: Some(landlord),
        }
    }

    /// Where this server runs, if it runs on a host.
    #[must_use]
    pub fn get(&self, server: usize) -> Option<&ChaosHost> {
        self.hosts.get(&server)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(landlord) = self.landlord.take() {
            // One that has panicked has said so itself.
            let _ended = landlord.join();
        }
    }
}

/// One server process and the network in front of it.
#[derive(Debug)]
pub struct ChaosHost {
    script: Script,
    http: HttpScript,
    process: Mutex<FaultyHttpProcess>,
    proxy: Proxy,
}

impl ChaosHost {
    /// Starts a server on this port, and the network in front of it. The server is started on the same port again, so no
    /// outgoing connection may take it meanwhile.
    ///
    /// Blocks the thread until the server listens.
    ///
    /// # Panics
    /// When the port is taken, or the server does not come up in time.
    ///
    /// # Cancel safety
    /// Safe: dropping it ends the server.
    pub async fn start(port: u16, script: Script, http: HttpScript) -> Self {
        let process = FaultyHttpProcess::start(port, &script, &http);
        let proxy = Proxy::start(process.port()).await.expect("a port is free");
        Self {
            script,
            http,
            process: Mutex::new(process),
            proxy,
        }
    }

    /// Where clients reach it.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.proxy.url(path)
    }

    /// Does something to the process, unless it is being started again just now.
    pub fn harm(&self, harm: impl FnOnce(&mut FaultyHttpProcess)) -> bool {
        match self.process.try_lock() {
            Ok(mut process) => {
                harm(&mut process);
                true
            }
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => false,
        }
    }

    /// Lets a frozen process go on, and bytes that were kept back.
    pub fn fix(&self) {
        self.process().thaw();
        self.proxy.hold(false);
    }

    /// What is between its clients and the server.
    #[must_use]
    pub fn network(&self) -> &Proxy {
        &self.proxy
    }

    /// Starts the process again if it is dead.
    fn revive(&self) {
        let mut process = self.process();
        if process.wait(Duration::ZERO).is_some() {
            *process = FaultyHttpProcess::start(process.port(), &self.script, &self.http);
        }
    }

    fn process(&self) -> MutexGuard<'_, FaultyHttpProcess> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
