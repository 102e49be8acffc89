//! How late timers fire on this machine, independently of what is tested.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const NAP: Duration = Duration::from_millis(5);

/// What "at once" means for what Mainstay promises within 100 ms, where it also has to wait for the end of a process.
const AT_ONCE: Duration = Duration::from_millis(250);

/// So many tasks and threads take part in what is awaited, one after the other, and each may be late.
const PARTS: u32 = 5;

/// Watches how long after its time a task that only sleeps is woken.
#[derive(Debug)]
pub struct Lateness {
    over: oneshot::Sender<()>,
    sleeper: JoinHandle<Duration>,
}

impl Lateness {
    /// Begins to watch.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn watch() -> Self {
        let (over, mut stopped) = oneshot::channel();
        let sleeper = tokio::spawn(async move {
            let mut worst = Duration::ZERO;
            while stopped.try_recv().is_err() {
                let began = Instant::now();
                tokio::time::sleep(NAP).await;
                worst = worst.max(began.elapsed().saturating_sub(NAP));
            }
            worst
        });
        Self { over, sleeper }
    }

    /// How late it was at worst.
    ///
    /// # Panics
    /// When the runtime was shut down meanwhile.
    ///
    /// # Cancel safety
    /// Safe: the watch ends by itself.
    pub async fn worst(self) -> Duration {
        let _sleeping = self.over.send(());
        self.sleeper.await.expect("a task that only sleeps")
    }

    /// Asserts that something came at once, but for the lateness of the machine.
    ///
    /// # Panics
    /// When it came later, or when the runtime was shut down meanwhile.
    ///
    /// # Cancel safety
    /// Safe: the watch ends by itself.
    pub async fn assert_at_once(self, took: Duration) {
        let late = self.worst().await;
        let limit = AT_ONCE + PARTS * late;
        assert!(took < limit, "{took:?}, on a machine that is up to {late:?} late");
    }
}
