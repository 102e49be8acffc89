//! Following tasks: what a modern server tells of them of its own accord.

use super::{Server, WishError};
use crate::connection::MAX_TASKS;
use crate::protocol::Era;
use crate::server::CallError;

impl Server {
    /// Asks the server to tell how a task goes, on this connection and on every one after it, until the task has ended. What
    /// it tells (`notifications/tasks`) goes to the fleet's handler.
    ///
    /// Says whether the server has agreed: of a task that it does not tell of, `tasks/get` has to be asked. Only modern
    /// servers can agree. While the server is not connected nobody can, and the wish is kept for when it is; one that a
    /// server does not agree to is not kept.
    ///
    /// Cancel safety: dropped, the wish is kept.
    pub async fn follow_task(&self, id: &str) -> Result<bool, WishError> {
        let is_kept = self.0.change_interests(|interests| {
            if interests.tasks.len() < MAX_TASKS {
                interests.tasks.insert(id.to_owned());
            }
            interests.tasks.contains(id)
        });
        if !is_kept {
            return Err(CallError::TooManySubscriptions {
                server: self.0.name.clone(),
                limit: MAX_TASKS,
            });
        }
        let Some(connection) = self.0.current.load_full() else {
            return Ok(false);
        };
        match connection.greeting.era {
            Era::Legacy => {
                self.0.change_interests(|interests| {
                    interests.tasks.remove(id);
                });
                Ok(false)
            }
            Era::Modern => Ok(connection.follow(id).await),
        }
    }

    /// Follows a task no more. Means nothing for one that has ended.
    pub fn unfollow_task(&self, id: &str) {
        let was_followed = self.0.change_interests(|interests| interests.tasks.remove(id));
        if !was_followed {
            return;
        }
        if let Some(connection) = self.0.current.load_full() {
            // The legacy era has no listens, and nothing to say.
            connection.listen();
        }
    }
}
