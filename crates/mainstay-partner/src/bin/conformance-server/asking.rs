//! Asking the client, as its era has it: a legacy client is asked while the request waits; a modern one is told what is
//! missing, and makes the request again with the answers.

#![expect(
    deprecated,
    reason = "sampling and roots are deprecated, and the suite asks for them"
)]

use rmcp::model::{
    ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec,
    RootsCapabilities, SamplingCapability,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServiceError};
use serde_json::Value;

use crate::questions::Questions;
use crate::running::is_legacy;

/// Guards nothing but a test.
const STATE_KEY: &[u8] = b"a key that is as long as it has to be";

/// What a request brings of earlier rounds.
#[derive(Default)]
pub(crate) struct Brought {
    pub(crate) responses: InputResponses,
    pub(crate) state: Option<String>,
}

pub(crate) enum AskOutcome {
    Answered(InputResponses),
    Wanted(InputRequiredResult),
}

/// Asks all that must be asked, or as much as one round allows.
pub(crate) async fn ask(
    questions: Questions,
    brought: Brought,
    context: &RequestContext<RoleServer>,
) -> Result<AskOutcome, ErrorData> {
    let questions = for_client(questions, &context.client_capabilities().unwrap_or_default())?;
    if is_legacy(context) {
        return ask_now(questions, context).await.map(AskOutcome::Answered);
    }
    next_round(questions, brought)
}

/// Only what the client can answer; a client that cannot is refused.
fn for_client(mut questions: Questions, client: &ClientCapabilities) -> Result<Questions, ErrorData> {
    for round in &mut questions.rounds {
        if questions.is_lenient {
            round.retain(|_, request| missing(request, client).is_none());
        }
        if let Some(missing) = round.values().find_map(|request| missing(request, client)) {
            return Err(ErrorData::missing_required_client_capability(missing));
        }
    }
    Ok(questions)
}

/// What the client would have to declare to be asked this.
fn missing(request: &InputRequest, client: &ClientCapabilities) -> Option<ClientCapabilities> {
    let mut missing = ClientCapabilities::default();
    match request {
        InputRequest::CreateMessage(_) if client.sampling.is_none() => {
            missing.sampling = Some(SamplingCapability::default());
        }
        InputRequest::Elicitation(_) if client.elicitation.is_none() => {
            missing.elicitation = Some(Default::default());
        }
        InputRequest::ListRoots(_) if client.roots.is_none() => {
            missing.roots = Some(RootsCapabilities::default());
        }
        _ => return None,
    }
    Some(missing)
}

async fn ask_now(
    questions: Questions,
    context: &RequestContext<RoleServer>,
) -> Result<InputResponses, ErrorData> {
    let mut answers = InputResponses::new();
    for (key, request) in questions.rounds.into_iter().flatten() {
        let answer = match request {
            InputRequest::CreateMessage(request) => {
                written(context.peer.create_message(request.params).await)?
            }
            InputRequest::Elicitation(request) => {
                written(context.peer.create_elicitation(request.params).await)?
            }
            InputRequest::ListRoots(_) => written(context.peer.list_roots().await)?,
            _ => return Err(ErrorData::internal_error("an unknown question", None)),
        };
        answers.insert(key, answer);
    }
    Ok(answers)
}

fn written(answer: Result<impl serde::Serialize, ServiceError>) -> Result<Value, ErrorData> {
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn next_round(mut questions: Questions, brought: Brought) -> Result<AskOutcome, ErrorData> {
    let codec = RequestStateCodec::try_new(STATE_KEY)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let forged = || ErrorData::invalid_params("the request state is not one of this server", None);
    let round = match &brought.state {
        Some(state) => codec.open_json::<usize>(state).map_err(|_| forged())?,
        None => 0,
    };
    let asked = questions.rounds.get(round).ok_or_else(forged)?;
    let is_done =
        is_answered(asked, &brought.responses) && (brought.state.is_some() || !questions.keeps_state);
    let next = round + usize::from(is_done);
    if next == questions.rounds.len() {
        return Ok(AskOutcome::Answered(brought.responses));
    }
    let state = questions.keeps_state.then(|| codec.seal_json(&next)).transpose();
    let state = state.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let wanted = questions.rounds.swap_remove(next);
    Ok(AskOutcome::Wanted(InputRequiredResult::new(Some(wanted), state)))
}

fn is_answered(requests: &InputRequests, responses: &InputResponses) -> bool {
    let answers = |(key, request): (&String, &InputRequest)| {
        let field = match request {
            InputRequest::CreateMessage(_) => "content",
            InputRequest::Elicitation(_) => "action",
            InputRequest::ListRoots(_) => "roots",
            _ => return false,
        };
        responses
            .get(key)
            .is_some_and(|response| response.get(field).is_some())
    };
    requests.iter().all(answers)
}
