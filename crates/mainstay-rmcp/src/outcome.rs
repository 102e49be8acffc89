//! Whether a call that Mainstay could not complete may have run.

use mainstay::Outcome;
use rmcp::ServiceError;
use rmcp::model::CallToolResult;

/// What is known of a tool call that Mainstay could not complete, for instance because the server died. `None` if the server answered,
/// or if the client gave up by itself.
///
/// Mainstay reports such a call as a result with `is_error`, so that a model reads what happened. Its `_meta` has the outcome for
/// programs.
pub fn outcome(answer: &Result<CallToolResult, ServiceError>) -> Option<Outcome> {
    let facts = match answer {
        Ok(result) => result.meta.as_ref()?.get("mainstay"),
        Err(ServiceError::McpError(error)) => error.data.as_ref()?.get("mainstay"),
        Err(_not_an_answer) => None,
    };
    let word = facts?.get("outcome")?.as_str()?;
    let all = [
        Outcome::NotSent,
        Outcome::Refused,
        Outcome::Unknown,
        Outcome::Answered,
    ];
    all.into_iter().find(|outcome| outcome.as_str() == word)
}
