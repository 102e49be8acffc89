//! Modern servers ask nothing while a request runs: they answer that input is required, and the request is made again
//! with the input.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use serde::Deserialize;
use tokio::time::timeout_at;

use super::Connection;
use crate::handler::{ServerRequest, decline};
use crate::large;
use crate::protocol::{LOG_LEVEL_KEY, RequestMeta};
use crate::server::CallOptions;
use crate::wire::{IdlePause, MetaEntries, Object, Params, RawJson, RequestError, RpcError, TimeoutKind};

/// Rounds of input before the call fails: the server would never stop asking.
const MAX_ROUNDS: usize = 10;

/// Requests for input in one round.
const MAX_INPUTS: usize = 64;

impl Connection {
    /// What a request of a modern connection carries in its `_meta`.
    pub(super) fn meta_of(
        &self,
        meta: &RequestMeta,
        params: &Params,
        call: &CallOptions,
    ) -> Arc<MetaEntries> {
        let capabilities = call
            .handler
            .as_ref()
            .map(|handler| handler.capabilities().to_json());
        let own_level = call.handler.as_ref().and_then(|handler| handler.log_level());
        let level = match own_level {
            Some(level) => RawJson::from_value(level).ok(),
            None => self.inbound.log_level(),
        };
        // What a caller says in the request itself counts more.
        let has_own_level = || {
            params
                .meta()
                .is_some_and(|meta| meta.get(LOG_LEVEL_KEY).is_some())
        };
        let level = level.filter(|_| !has_own_level());
        meta.of_request(capabilities.as_ref(), level)
    }

    /// Makes a request again with the input that the server needs, until it needs no more. `result` is what it answered to the
    /// first one.
    pub(super) async fn give_input(
        &self,
        method: &str,
        params: &Params,
        call: &CallOptions,
        hold: Option<&Arc<IdlePause>>,
        meta: &Arc<MetaEntries>,
        (mut result, mut needed): (RawJson, InputRequired),
    ) -> Result<RawJson, RequestError> {
        let mut sent = params.to_raw().unwrap_or(RawJson::EMPTY_OBJECT);
        for _ in 1..MAX_ROUNDS {
            let responses = match needed.input_requests {
                Some(requests) => Some(self.answer_in_time(requests, call).await?),
                None => None,
            };
            let Some(again) = with_input(sent, responses, needed.request_state).await else {
                return Ok(result);
            };
            sent = again;
            let next = Params::read(Some(sent.clone())).await;
            let options = self.wire_options(call, hold.cloned(), Some(meta.clone()));
            let answer = self.peer.request_with(method, &next, options).await;
            result = answer.map_err(RequestError::after_a_round)?;
            needed = match InputRequired::look_for(method, &result).await {
                Some(needed) => needed,
                None => return Ok(result),
            };
        }
        let error = RpcError::new(
            RpcError::INTERNAL_ERROR,
            format!("{method} still asks for input after {MAX_ROUNDS} rounds"),
        );
        Err(RequestError::Rpc(error))
    }

    /// The answers, within the deadline of the call.
    async fn answer_in_time(
        &self,
        requests: BTreeMap<String, InputRequest>,
        call: &CallOptions,
    ) -> Result<RawJson, RequestError> {
        let answers = self.answer_all(requests, call);
        let Some(deadline) = call.deadline else {
            return answers.await;
        };
        let run_out = RequestError::TimedOut {
            kind: TimeoutKind::Person,
            sent: true,
        };
        timeout_at(deadline, answers).await.unwrap_or(Err(run_out))
    }

    async fn answer_all(
        &self,
        requests: BTreeMap<String, InputRequest>,
        call: &CallOptions,
    ) -> Result<RawJson, RequestError> {
        let mut answers = BTreeMap::new();
        for (key, request) in requests.into_iter().take(MAX_INPUTS) {
            let handler = call.handler.as_ref().unwrap_or(self.inbound.fleet_handler());
            let request = ServerRequest {
                server: self.inbound.server(),
                generation: self.generation,
                method: request.method,
                params: request.params,
            };
            let method = request.method.clone();
            let answer = self
                .inbound
                .with_answer_timeout(handler.request(request), || decline(&method))
                .await;
            answers.insert(key, answer.map_err(RequestError::Rpc)?);
        }
        RawJson::from_value(&answers)
            .map_err(|error| RequestError::Rpc(RpcError::new(RpcError::INTERNAL_ERROR, error.to_string())))
    }
}

/// Parameters of the next round. What the last round carried and this one does not is removed. `None` if they are no object.
async fn with_input(params: RawJson, responses: Option<RawJson>, state: Option<RawJson>) -> Option<RawJson> {
    let length = params.as_bytes().len();
    let edit = move || {
        let mut object = Object::parse(&params)?;
        for (name, value) in [("inputResponses", responses), ("requestState", state)] {
            match value {
                Some(value) => object.set(name, value),
                None => drop(object.remove(name)),
            }
        }
        Some(object.to_raw())
    };
    large::process(length, edit).await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequired {
    result_type: String,
    input_requests: Option<BTreeMap<String, InputRequest>>,
    request_state: Option<RawJson>,
}

#[derive(Deserialize)]
struct InputRequest {
    method: String,
    params: Option<RawJson>,
}

impl InputRequired {
    /// The server's request for input, if the result is one.
    pub(super) async fn look_for(method: &str, result: &RawJson) -> Option<Self> {
        let length = result.as_bytes().len();
        if length <= large::INLINE_LIMIT {
            return Self::read(method, result);
        }
        let (method, result) = (method.to_owned(), result.clone());
        // Boxed: few results are large.
        Box::pin(large::process(length, move || Self::read(&method, &result))).await
    }

    /// The same for a result that is not large. The search for the word is many times quicker than
    /// a look into a large result, and a result without it cannot be one.
    fn read(method: &str, result: &RawJson) -> Option<Self> {
        const WORD: &str = "input_required";
        // Made once: for a result of ordinary length it takes longer to prepare than to search.
        static FIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(WORD));
        let may_ask = matches!(method, "tools/call" | "prompts/get" | "resources/read");
        if !may_ask || FIND.find(result.as_bytes()).is_none() {
            return None;
        }
        result
            .parse::<Self>()
            .ok()
            .filter(|read| read.result_type == WORD)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::sync::mpsc;

    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::from_text(text.to_owned()).unwrap()
    }

    #[tokio::test]
    async fn a_round_carries_its_own_input_and_none_of_the_last_round() {
        let first = with_input(raw(r#"{"name":"t"}"#), Some(raw(r#"{"a":1}"#)), None)
            .await
            .unwrap();
        assert_eq!(first.to_string(), r#"{"name":"t","inputResponses":{"a":1}}"#);
        let second = with_input(first, None, Some(raw(r#""s""#))).await.unwrap();
        assert_eq!(second.to_string(), r#"{"name":"t","requestState":"s"}"#);
        assert_eq!(with_input(raw("[]"), None, None).await, None);
    }

    #[test]
    fn only_large_parameters_and_results_are_processed_on_a_thread_that_may_block() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        // The only such thread is busy until the end.
        let (end, busy) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || busy.recv());
        runtime.block_on(async {
            for (length, is_here) in [(large::INLINE_LIMIT / 2, true), (large::INLINE_LIMIT, false)] {
                let text = format!(
                    r#"{{"resultType":"input_required","x":"{}"}}"#,
                    "x".repeat(length)
                );
                let edited = pin!(with_input(raw(&text), None, None));
                let was_edited = tokio::select! {
                    biased;
                    edited = edited => edited.is_some(),
                    () = ready(()) => false,
                };
                assert_eq!(was_edited, is_here, "{length} bytes");
                let result = raw(&text);
                let found = pin!(InputRequired::look_for("tools/call", &result));
                let was_found = tokio::select! {
                    biased;
                    found = found => found.is_some(),
                    () = ready(()) => false,
                };
                assert_eq!(was_found, is_here, "{length} bytes");
            }
        });
        drop(end);
    }

    #[tokio::test]
    async fn only_some_requests_are_answered_with_a_need_for_input() {
        let asks = raw(r#"{"resultType":"input_required","requestState":"s"}"#);
        for (method, may_ask) in [
            ("tools/call", true),
            ("prompts/get", true),
            ("resources/read", true),
            ("tools/list", false),
        ] {
            let needed = InputRequired::look_for(method, &asks).await;
            assert_eq!(needed.is_some(), may_ask, "{method}");
        }
        let mentions = raw(r#"{"resultType":"complete","content":"input_required"}"#);
        assert!(InputRequired::look_for("tools/call", &mentions).await.is_none());
    }
}
