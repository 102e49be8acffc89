//! How late timers fire on this machine, independently of what is tested.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const NAP: Duration = Duration::from_millis(5);

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
}
