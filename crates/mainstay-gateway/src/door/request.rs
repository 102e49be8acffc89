//! One request of a client, on its way from any door through the router.

use std::sync::Arc;

use mainstay::gateway::message::{Params, RawJson};

use super::outgoing::RequestAnswer;
use crate::answer_kind::AnswerKind;
use crate::client::{Client, Outbox, RunningRequest};
use crate::protocol::ClientMeta;
use crate::router::{RoutedRequest, Router};

/// A request, parsed once.
pub(super) struct ClientRequest {
    pub(super) id: RawJson,
    pub(super) method: String,
    pub(super) params: Params,
    pub(super) meta: ClientMeta,
}

impl ClientRequest {
    /// Parses the parameters of a request, on a thread that may block if they are large.
    ///
    /// Cancel safety: dropping the future loses the request.
    pub(super) async fn read(id: RawJson, method: &str, params: Option<RawJson>) -> Self {
        let params = Params::read(params).await;
        Self {
            meta: ClientMeta::read(&params),
            id: detached(id),
            method: method.to_owned(),
            params,
        }
    }

    /// Lets the router answer it. What comes before the answer goes to `outbox`. `None` if the client has cancelled it.
    ///
    /// Cancel safety: dropping the future cancels the request at its server.
    pub(super) async fn answer(
        self,
        router: &Router,
        client: &Arc<Client>,
        outbox: &Arc<dyn Outbox>,
        run: &RunningRequest,
    ) -> Option<RequestAnswer> {
        let Self {
            id,
            method,
            params,
            meta,
        } = self;
        let request = RoutedRequest {
            client,
            outbox,
            run,
            method: &method,
            params,
            meta,
        };
        let result = router.answer(request).await?;
        Some(RequestAnswer {
            id,
            result,
            kind: AnswerKind::of(&method, client.era),
        })
    }
}

/// A copy of an id. The id itself is a part of its message, and would keep all of it in memory until the answer is read.
fn detached(id: RawJson) -> RawJson {
    RawJson::from_text(id.as_str()).unwrap_or(id)
}
