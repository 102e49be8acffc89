//! One request of a client, on its way from any door through the router.

use std::sync::Arc;

use mainstay::gateway::message::{Params, RawJson};

use super::outgoing::RequestAnswer;
use crate::answer_kind::AnswerKind;
use crate::client::{Client, Outbox, RunningRequest};
use crate::failure::{CutReason, OwnFailure};
use crate::protocol::ClientMeta;
use crate::router::{RoutedRequest, RoutedResult, Router};

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

    /// Lets the router answer it. What comes before the answer goes to `outbox`. `None` if the client has cancelled it. When `cut`
    /// returns, the request is cancelled at its server, and the answer says why and whether it may have run.
    ///
    /// Cancel safety: dropping the future cancels the request at its server.
    pub(super) async fn answer(
        self,
        router: &Router,
        client: &Arc<Client>,
        outbox: &Arc<dyn Outbox>,
        run: &RunningRequest,
        cut: impl Future<Output = CutReason>,
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
        let kind = AnswerKind::of(&method, client.era);
        let answered = tokio::select! {
            biased;
            answered = router.answer(request) => Ok(answered?),
            why = cut => Err(why),
        };
        // The outcome of a cut call is known once its future is dropped, which it is here.
        let (result, hint) = match answered {
            Ok(Ok(RoutedResult { payload, hint })) => (Ok(payload), hint),
            Ok(Err(error)) => (Err(error), None),
            Err(why) => (
                kind.failed(OwnFailure::cut(why, run.server(), run.outcome())),
                None,
            ),
        };
        Some(RequestAnswer {
            id,
            result,
            kind,
            hint,
        })
    }
}

/// The longest id that is copied, in bytes. Clients send some tens.
const COPIED_ID_LIMIT: usize = 1024;

/// A copy of an id. The id itself is a part of its message, and would keep all of it in memory until the answer is read. A long id does
/// keep it: the message is charged to its client, and a copy is not.
fn detached(id: RawJson) -> RawJson {
    if id.as_bytes().len() > COPIED_ID_LIMIT {
        return id;
    }
    RawJson::from_text(id.as_str()).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use mainstay::gateway::message::Message;

    use super::*;
    use crate::budget::Budget;
    use crate::principal::Principal;

    #[tokio::test]
    async fn a_long_id_is_charged_as_long_as_it_is_kept_and_a_short_one_keeps_nothing() {
        let budget = Arc::new(Budget::default());
        let account = budget.account(Principal::session(1));
        for (length, is_charged) in [(10, false), (2 * COPIED_ID_LIMIT, true)] {
            let id = "i".repeat(length);
            let line = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#);
            let line = account.charge(line.into()).unwrap();
            let Message::Request { id, method, params } = Message::read_any(&line).await else {
                panic!("it is a request");
            };
            let request = ClientRequest::read(id, &method, params).await;
            drop(method);
            drop(line);
            assert_eq!(budget.held() > length, is_charged, "{} bytes", budget.held());
            drop(request);
            assert_eq!(budget.held(), 0);
        }
    }
}
