//! The task that closes idle connections of a pool.
//!
//! One task for all of them, which waits for the close of each. It does not look at a connection the moment it comes back:
//! in a busy pool that would wake the task for every request. A second after one came, it looks at all that are there, and
//! then rests until one is closed, has been kept long enough, or a new one comes.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::{IdleConnection, Pool};

/// How long a connection that came back may be closed before anybody notices.
const UNSEEN: Duration = Duration::from_secs(1);

/// The task, and how to wake it. It ends when this is dropped.
pub(super) struct Sweeper {
    task: AbortHandle,
    new_connection: Arc<Notify>,
    /// Whether it waits for the close of every connection that is there.
    rests: bool,
}

impl Sweeper {
    /// None outside of a runtime: then nothing can be kept for long.
    pub(super) fn start(pool: &Arc<Pool>) -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let new_connection = Arc::<Notify>::default();
        let task = runtime.spawn(sweep(Arc::downgrade(pool), new_connection.clone()));
        Some(Self {
            task: task.abort_handle(),
            new_connection,
            rests: false,
        })
    }

    /// Wakes the task for a connection that it has not seen, unless it is awake.
    pub(super) fn connection_came(&mut self) {
        if std::mem::take(&mut self.rests) {
            self.new_connection.notify_one();
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn sweep(pool: Weak<Pool>, new_connection: Arc<Notify>) {
    loop {
        sleep(UNSEEN).await;
        loop {
            let look = poll_fn(|cx| Poll::Ready(pool.upgrade().and_then(|pool| pool.close_idle(cx))));
            let Some(next) = look.await else { return };
            let mut is_first = true;
            // Whatever wakes this task but the other two is a connection that has something to say.
            let stirred = poll_fn(|_| match std::mem::take(&mut is_first) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            });
            tokio::select! {
                biased;
                () = new_connection.notified() => break,
                () = sleep_until(next) => {}
                () = stirred => {}
            }
        }
    }
}

impl Pool {
    /// Closes connections that were idle for too long, and drops those that the far side closed. The close of any other
    /// wakes the task. Returns when the next one is to be closed; `None` ends the task.
    fn close_idle(&self, cx: &mut Context<'_>) -> Option<Instant> {
        let mut idle = self.idle();
        let now = Instant::now();
        let is_over = |kept: &mut IdleConnection| kept.until <= now || !kept.connection.is_open(cx);
        let over: Vec<_> = idle.connections.extract_if(.., is_over).collect();
        let next = idle.connections.iter().map(|kept| kept.until).min();
        let done = match &mut idle.sweeper {
            Some(sweeper) if next.is_some() => {
                sweeper.rests = true;
                None
            }
            there => there.take(),
        };
        drop(idle);
        drop((over, done));
        next
    }
}
