//! Tasks that a listen follows. Whether a server tells of its tasks it says itself, so it is asked before the listen is
//! acknowledged: of what is not acknowledged the client knows that it has to ask.

use std::collections::BTreeSet;
use std::time::Duration;

use mainstay::gateway::message::RpcError;
use tokio::time::{Instant, timeout_at};

use super::super::reaching::Reached;
use super::super::subscribers::Subscriber;
use super::super::subscriptions::Topic;
use super::super::{Request, Router};
use super::EXTENSION;
use crate::protocol::missing_extension;

/// Tasks that one listen may follow: each is asked for in turn.
pub(in crate::router) const MAX_FOLLOWED: usize = 256;

/// How long the acknowledgement of a listen waits for the servers to agree. What they have not agreed to by then is not
/// followed.
const AGREEMENT: Duration = Duration::from_secs(3);

impl Router {
    /// Follows these tasks from now on, and returns those whose servers agreed.
    pub(in crate::router) async fn follow(
        &self,
        request: &Request<'_>,
        hearing: &Subscriber,
        ids: &BTreeSet<String>,
    ) -> Result<Vec<String>, RpcError> {
        if !ids.is_empty() && !request.meta.declares_extension(EXTENSION) {
            return Err(missing_extension(EXTENSION));
        }
        let until = Instant::now() + AGREEMENT;
        let mut agreed = Vec::new();
        for id in ids {
            let Some((topic, reached)) = self.task(request, id) else {
                continue;
            };
            // Before the server is asked: it may tell of the task right after it has agreed.
            let expecting = hearing.expect(&topic, &reached)?;
            let begun = self.subscriptions.begin(request.client, reached, &topic);
            if let Ok(Ok(subscription)) = timeout_at(until, begun).await {
                expecting.keep(subscription);
                agreed.push(id.clone());
            }
        }
        Ok(agreed)
    }

    /// A task that the client knows by this id, and the server that has it.
    fn task(&self, request: &Request<'_>, id: &str) -> Option<(Topic, Reached)> {
        let (server, id) = request.client.tasks.known(id)?;
        let reached = self.reach(request.client, &server).ok()?;
        Some((Topic::Task { server, id }, reached))
    }
}
