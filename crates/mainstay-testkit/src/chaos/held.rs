//! What a process holds, and whether it is given back.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::procfs;

/// What is let go of in the background needs a moment: sockets are closed by tasks of their own.
const LETTING_GO: Duration = crate::poll::LIMIT;

const POLL: Duration = Duration::from_millis(20);

/// The descriptors and tasks of this process at some moment.
#[derive(Debug)]
pub struct Held {
    /// What each descriptor is open for, in the order of their numbers.
    descriptors: Vec<String>,
    tasks: usize,
}

impl Held {
    /// What is held now.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn now() -> Self {
        Self {
            descriptors: procfs::descriptors(),
            tasks: Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// What is held when things have settled: as little as it gets for a while.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn settled() -> Self {
        const QUIET: Duration = Duration::from_millis(300);
        let mut least = Self::now();
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            tokio::time::sleep(POLL).await;
            let now = Self::now();
            if now.size() < least.size() {
                least = now;
                since = Instant::now();
            }
        }
        least
    }

    /// Waits until no more than this is held.
    ///
    /// # Panics
    /// When more is held for long, with what that is.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn is_held_again(&self) {
        let deadline = Instant::now() + LETTING_GO;
        loop {
            let now = Self::now();
            if now.descriptors.len() <= self.descriptors.len() && now.tasks <= self.tasks {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{} tasks are left that were not there ({} now); descriptors before: {:?}, and now: {:?}",
                now.tasks.saturating_sub(self.tasks),
                now.tasks,
                self.descriptors,
                now.descriptors
            );
            tokio::time::sleep(POLL).await;
        }
    }

    fn size(&self) -> (usize, usize) {
        (self.tasks, self.descriptors.len())
    }
}
