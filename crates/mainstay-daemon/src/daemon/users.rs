//! Counts what keeps the daemon running: bridges, other connections, and servers that bridges asked for.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// The count. Clones count together.
#[derive(Clone)]
pub(super) struct Users(watch::Sender<usize>);

/// One of them, as long as this lives.
pub(super) struct DaemonUse(watch::Sender<usize>);

impl Users {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    pub(super) fn enter(&self) -> DaemonUse {
        self.0.send_modify(|users| *users += 1);
        DaemonUse(self.0.clone())
    }

    /// Returns when there was none for this long.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(super) async fn wait_idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        let mut users = self.0.subscribe();
        loop {
            let _ = users.wait_for(|users| *users == 0).await;
            tokio::select! {
                () = sleep(limit) => return,
                _ = users.wait_for(|users| *users > 0) => {}
            }
        }
    }
}

impl Drop for DaemonUse {
    fn drop(&mut self) {
        self.0.send_modify(|users| *users -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_idle_time_begins_again_with_each_user() {
        let users = Users::new();
        let began = Instant::now();
        let waiting = tokio::spawn({
            let users = users.clone();
            async move { users.wait_idle(Some(Duration::from_secs(10))).await }
        });
        sleep(Duration::from_secs(9)).await;
        let user = users.enter();
        sleep(Duration::from_secs(60)).await;
        drop(user);
        waiting.await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(79));
    }
}
