//! A server's failure, in words that a model can act on: which server, its state, whether the call may have run, and what to do, in
//! this order. Programs find the same in `_meta.mainstay`, or in the data of an error.

use std::sync::Arc;
use std::time::Duration;

use mainstay::gateway::PlainText;
use mainstay::gateway::message::{RawJson, RpcError};
use mainstay::server::{CredentialKind, NotConnected, Reason, TimeoutKind};
use mainstay::transport::http::Challenge;
use mainstay::{CallError, CallErrorKind, Outcome, StateKind, Status};
use serde_json::{Value, json};

use crate::budget::Spent;
use crate::protocol::{SERVER_UNAVAILABLE, invalid_params, raw};
use crate::router::TooManyCalls;

/// Finds the command that logs in to a server of this name, if the server offers a login.
pub(crate) type FindLoginCommand = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Finds what lets the requests to a server of this name in.
pub(crate) type FindCredential = Arc<dyn Fn(&str) -> Option<CredentialKind> + Send + Sync>;

/// What the program around the gateway knows to do about a failure. Without it, the words name no command.
#[derive(Clone, Default)]
pub(crate) struct Advice {
    pub(crate) login_command: Option<FindLoginCommand>,
    pub(crate) credential: Option<FindCredential>,
    /// A sentence about servers whose process ends while it is being started.
    pub(crate) start_hint: Option<Arc<str>>,
}

impl Advice {
    fn credential(&self, server: &str) -> CredentialKind {
        let found = self.credential.as_ref().and_then(|credential| credential(server));
        found.unwrap_or(CredentialKind::Login)
    }

    /// What a person must do so that the server lets its requests in, and what it asked for.
    fn letting_in(&self, server: &str, challenge: Option<&Challenge>) -> String {
        match self.credential(server) {
            CredentialKind::Configured => {
                let more = challenge.filter(|challenge| challenge.wants_more_rights());
                let by = more.map_or("", |challenge| match challenge.scopes.is_empty() {
                    true => " by one with more rights",
                    false => " by one with these scopes",
                });
                format!("A person must replace the token of the server's configuration{by}")
            }
            CredentialKind::None => {
                "A person must add a token to the server's configuration, which turns logins off".to_owned()
            }
            _login => {
                let command = self.login_command.as_ref().and_then(|command| command(server));
                let scopes = challenge.map_or_else(String::new, scope_options);
                let command = command.map_or_else(String::new, |command| format!(" (`{command}{scopes}`)"));
                format!("A person must log in to the server{command}")
            }
        }
    }

    /// What a server does that does not let its requests in, and the scopes that it asks for. The text says if it refused a token, or
    /// accepted one and wants more rights: another login with the same rights does not help.
    fn asks(&self, server: &str, challenge: &Challenge) -> String {
        let is_configured = self.credential(server) == CredentialKind::Configured;
        let (token, asks) = match is_configured {
            true => ("the token of its configuration", ""),
            false => ("the token that it was shown", " and asks for a login"),
        };
        let scopes = challenge.scopes.join(" ");
        if challenge.wants_more_rights() {
            let which = match scopes.is_empty() {
                true => String::new(),
                false => format!(": the scopes {scopes}"),
            };
            return format!("accepted {token}, but needs more rights{which}");
        }
        let with = match scopes.is_empty() {
            true => String::new(),
            false => format!(" with the scopes {scopes}"),
        };
        match (challenge.refuses_credential, challenge.error_name()) {
            (false, _) => format!("asks for a login{with}"),
            (true, Some(error)) => format!("refused {token} ({error}){asks}{with}"),
            (true, None) => format!("refused {token}{asks}{with}"),
        }
    }

    /// The sentence about a server whose process ended before it was of any use.
    fn start_hint(&self, now: &NotConnected) -> String {
        let ended = now.attempt > 0 && now.last_error.as_ref().is_some_and(|error| error.exit.is_some());
        match &self.start_hint {
            Some(hint) if ended => format!(" {hint}"),
            Some(_) | None => String::new(),
        }
    }
}

/// The answer to a failed call. A server's own error passes as it came.
pub(crate) fn answer(error: &CallError, advice: &Advice) -> RpcError {
    match error.kind() {
        CallErrorKind::Rpc(error) => (**error).clone(),
        CallErrorKind::Hidden { .. } | CallErrorKind::NotFound { .. } | CallErrorKind::BadArguments(_) => {
            invalid_params(error.to_string())
        }
        _other => with_facts(&words(error, advice), error),
    }
}

/// The answer to a failed call of a tool. Where the server did not answer, it is a result, since that is what reaches the model.
pub(crate) fn tool_result(error: &CallError, advice: &Advice) -> Result<RawJson, RpcError> {
    let answered = answer(error, advice);
    if answered.code() != SERVER_UNAVAILABLE || matches!(error.kind(), CallErrorKind::Rpc(_)) {
        return Err(answered);
    }
    Ok(as_tool_result(&answered, &facts(error)))
}

fn as_tool_result(failed: &RpcError, facts: &Value) -> RawJson {
    raw(&json!({
        "content": [{ "type": "text", "text": failed.message() }],
        "isError": true,
        "_meta": { "mainstay": facts },
    }))
}

/// Why the gateway cuts a request that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutReason {
    Shutdown,
    /// The client may use the gateway no longer.
    TokenRemoved,
}

/// A failure of the gateway itself: its server had no part in it.
pub(crate) struct OwnFailure {
    words: String,
    facts: Value,
}

impl OwnFailure {
    fn new(words: String, server: Option<&str>, outcome: Outcome) -> Self {
        let mut facts = facts_of(outcome);
        if let Some(server) = server {
            facts["server"] = json!(server);
        }
        Self { words, facts }
    }

    /// There is no room for the answer to a call that has run. It must not read like a refusal: a client that repeats the call would
    /// run it twice.
    pub(crate) fn dropped(why: Spent) -> Self {
        let words = format!(
            "The call has run, and the gateway dropped its answer: {}. Check its effects before you call it again.",
            why.fact()
        );
        Self::new(words, None, Outcome::Answered)
    }

    /// The gateway cuts a request. Its call to this server, if there is one, has this outcome.
    pub(crate) fn cut(why: CutReason, server: Option<&str>, outcome: Outcome) -> Self {
        let (why, ran) = match why {
            CutReason::Shutdown => ("The gateway is being shut down", ran(outcome)),
            // The client cannot call again.
            CutReason::TokenRemoved => ("The token of this client was removed", whether_it_ran(outcome)),
        };
        let words = match server {
            Some(server) => format!("{why}, and the gateway has cut the call to server {server}. {ran}"),
            None => format!("{why}. {ran}"),
        };
        Self::new(words, server, outcome)
    }

    /// The client has as many calls under way on this server as it may.
    pub(crate) fn too_many_calls(server: &str, full: TooManyCalls) -> Self {
        let TooManyCalls {
            limit,
            has_others,
            waited,
        } = full;
        let why = match has_others {
            true => "as many as it may while other clients call the server",
            false => "as many as it may, so that other clients can call the server",
        };
        let waited = waited.map_or_else(String::new, |waited| format!("waited {} and ", seconds(waited)));
        let words = format!(
            "{limit} calls of this client wait for server {server} or run there, {why}. This call {waited}did not run. Wait until one \
             of them has ended, or cancel one, and call again."
        );
        Self::new(words, Some(server), Outcome::NotSent)
    }

    pub(crate) fn into_error(self) -> RpcError {
        said_with(&self.words, &self.facts)
    }

    /// The same as the result of a tool.
    pub(crate) fn into_tool_result(self) -> RawJson {
        let facts = self.facts.clone();
        as_tool_result(&self.into_error(), &facts)
    }
}

/// The answer to a list or an `initialize` while its server is not up.
pub(crate) fn not_up(error: &CallError, advice: &Advice) -> RpcError {
    let words = match error.kind() {
        CallErrorKind::NotConnected(now) => {
            format!("{}. {}", how_it_starts(now, advice), remedy(now, advice))
        }
        CallErrorKind::WaitTimedOut { waited, now } => format!(
            "{}. The request waited {} for it. {}",
            how_it_starts(now, advice),
            seconds(*waited),
            remedy(now, advice)
        ),
        _other => words(error, advice),
    };
    with_facts(&words, error)
}

/// Why a server is not up, and what to do; `None` while it is starting, and where a person or the configuration wants it so.
pub(crate) fn why_not_up(status: &Status, advice: &Advice) -> Option<String> {
    let now = NotConnected::from(status);
    let is_wanted_so = match (now.state, now.reason) {
        (StateKind::Connected | StateKind::Disabled | StateKind::Disabling, _)
        | (StateKind::Disconnected, Some(Reason::Idle)) => true,
        // A server that has failed is named also while its next attempt runs, which may fail too.
        (StateKind::Connecting | StateKind::Reconnecting, _) => now.last_error.is_none(),
        (StateKind::Disconnected | StateKind::PermanentlyFailed, _) => false,
    };
    let words =
        (!is_wanted_so).then(|| format!("{}. {}", how_it_starts(&now, advice), remedy(&now, advice)))?;
    Some(PlainText::lines(&words).to_string())
}

/// The words may quote what a server wrote, and a model reads them: they are cleaned.
fn with_facts(words: &str, error: &CallError) -> RpcError {
    said_with(words, &facts(error))
}

fn said_with(words: &str, facts: &Value) -> RpcError {
    let data = raw(&json!({ "mainstay": facts }));
    RpcError::new(SERVER_UNAVAILABLE, PlainText::lines(words)).with_data(data)
}

fn words(error: &CallError, advice: &Advice) -> String {
    let server = error.server().unwrap_or_default();
    let outcome = error.outcome();
    match error.kind() {
        CallErrorKind::NotConnected(now) => {
            format!(
                "{}. The call did not run. {}",
                how(now, advice),
                next_step(now, advice)
            )
        }
        CallErrorKind::WaitTimedOut { waited, now } => format!(
            "{}. The call waited {} for it and did not run. {}",
            how(now, advice),
            seconds(*waited),
            next_step(now, advice)
        ),
        CallErrorKind::TooManyWaiting { limit, now } => format!(
            "{}. {limit} calls wait for it already, and this one did not run. {}",
            how(now, advice),
            next_step(now, advice)
        ),
        CallErrorKind::TimedOut { timeout, noise } => format!(
            "Server {server} did not answer in time ({}). {}{}",
            late(*timeout),
            ran(outcome),
            misplaced(noise.as_deref())
        ),
        CallErrorKind::Cancelled => {
            format!(
                "An operator cancelled the call to server {server}. {}",
                ran(outcome)
            )
        }
        CallErrorKind::Lost { reason, failure } => {
            let lost = format!("The connection to server {server} was lost");
            match failure {
                // Over HTTP that may be the connection of this call alone.
                None => format!("{lost} ({reason}). {}", ran(outcome)),
                Some(failure) if failure.challenge.is_none() => {
                    format!("{lost} ({failure}), and it is being restarted. {}", ran(outcome))
                }
                Some(failure) => format!(
                    "{lost} ({failure}). {} {}",
                    whether_it_ran(outcome),
                    must_log_in(server, failure.challenge.as_ref(), advice)
                ),
            }
        }
        CallErrorKind::Disabled => format!(
            "Server {server} was disabled while the call was pending. {} A person must enable the server.",
            whether_it_ran(outcome)
        ),
        CallErrorKind::Gone => format!(
            "Server {server} was removed. {} It cannot be called until a person adds the server again.",
            match outcome {
                Outcome::NotSent | Outcome::Refused => "The call did not run.",
                _may_have_run => "The call may have run: check its effects.",
            }
        ),
        // The same request would be refused again.
        CallErrorKind::NotCarried { reason } if outcome == Outcome::Refused => {
            format!("Server {server} refused the request ({reason}). The call did not run.")
        }
        CallErrorKind::NotCarried { reason } => format!(
            "The call could not be carried to server {server} ({reason}). {}",
            ran(outcome)
        ),
        CallErrorKind::AuthRequired { challenge } => {
            let ran = refused(error);
            let asks = advice.asks(server, challenge);
            // Other calls may need less.
            let until = match challenge.wants_more_rights() {
                true => "it refuses this call",
                false => "it cannot be called",
            };
            let login = advice.letting_in(server, Some(challenge));
            format!("Server {server} {asks}. {ran} {login}; until then {until}.")
        }
        CallErrorKind::Throttled { retry_after } => {
            let when =
                retry_after.map_or_else(|| "later".to_owned(), |pause| format!("in {}", seconds(pause)));
            let next = match error.may_have_run() {
                true => "The call may have run: check its effects before you call it again",
                false => "The call did not run. Call it again",
            };
            format!("Server {server} has too much to do. {next} {when}.")
        }
        CallErrorKind::BadAnswer(what) => format!(
            "Server {server} answered with something that cannot be used ({what}). {}",
            ran(outcome)
        ),
        CallErrorKind::KeeperFailed => {
            format!("Server {server} is being restarted. The call did not run. Call it again in a moment.")
        }
        _other => format!("{error}."),
    }
}

fn must_log_in(server: &str, challenge: Option<&Challenge>, advice: &Advice) -> String {
    format!(
        "{}; until then it cannot be called.",
        advice.letting_in(server, challenge)
    )
}

/// What a server that asks for a login, or for more rights, asks for.
fn challenge_of(now: &NotConnected) -> Option<&Challenge> {
    now.last_error.as_ref().and_then(|error| error.challenge.as_ref())
}

/// The options of a login for more rights. A scope that a shell might take for anything else is left out.
fn scope_options(challenge: &Challenge) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    let scopes = challenge.scopes.iter().filter(|_| challenge.wants_more_rights());
    let plain = scopes.filter(|scope| !scope.starts_with('-') && scope.bytes().all(is_plain));
    plain.map(|scope| format!(" --scope {scope}")).collect()
}

/// The state of a server that is not connected.
fn how(now: &NotConnected, advice: &Advice) -> String {
    let server = &now.server;
    let failure = || {
        let error = now.last_error.as_ref();
        error.map_or_else(String::new, |error| format!(": {error}"))
    };
    let failures = failures(now);
    match (now.state, now.reason) {
        (StateKind::Disabled | StateKind::Disabling, _) => format!("Server {server} is disabled"),
        (StateKind::Connecting, _) if now.attempt == 0 => format!("Server {server} is starting (connecting)"),
        (StateKind::Connecting, _) => {
            format!("Server {server} is starting (connecting{failures}){}", failure())
        }
        (StateKind::Reconnecting, _) => {
            format!(
                "Server {server} is being restarted (reconnecting{failures}){}",
                failure()
            )
        }
        (StateKind::Disconnected, Some(Reason::Idle)) => {
            format!("Server {server} was stopped because it was idle (disconnected)")
        }
        (StateKind::Disconnected, Some(Reason::Lost)) => {
            format!(
                "Server {server} stopped, and is started again by calls alone (disconnected{failures}){}",
                failure()
            )
        }
        (StateKind::Disconnected, Some(Reason::AuthRequired)) => {
            let asks = challenge_of(now).map_or_else(
                || "asks for a login".to_owned(),
                |challenge| advice.asks(server, challenge),
            );
            format!("Server {server} {asks} (disconnected)")
        }
        (StateKind::Disconnected, Some(Reason::BudgetSpent) | None) => {
            format!("Server {server} is down (disconnected{failures}){}", failure())
        }
        (StateKind::PermanentlyFailed, _) => {
            format!(
                "Server {server} has failed and is not tried again (permanently_failed){}",
                failure()
            )
        }
        // It has come back since.
        (StateKind::Connected, _) => format!("Server {server} was not connected"),
    }
}

/// The state of a server that was never up.
fn how_it_starts(now: &NotConnected, advice: &Advice) -> String {
    match (now.state, &now.last_error) {
        (StateKind::Connecting | StateKind::Reconnecting, Some(error)) => {
            let (server, state, failures) = (&now.server, now.state, failures(now));
            format!("Server {server} did not start ({state}{failures}): {error}")
        }
        (StateKind::PermanentlyFailed, Some(error)) => {
            format!("Server {} cannot be started ({}): {error}", now.server, now.state)
        }
        // A connected server is known, but for what it offers.
        (StateKind::Connected, Some(error)) => {
            format!(
                "Server {} is {}, and was never listed: {error}",
                now.server, now.state
            )
        }
        _other => how(now, advice),
    }
}

/// What happens next to a server that is not up, and what to do.
fn remedy(now: &NotConnected, advice: &Advice) -> String {
    let hint = advice.start_hint(now);
    let remedy = match (now.state, now.reason) {
        (StateKind::Disabled | StateKind::Disabling, _) => "A person must enable the server.".to_owned(),
        (StateKind::Disconnected, Some(Reason::AuthRequired)) => {
            let login = advice.letting_in(&now.server, challenge_of(now));
            match next_try(now) {
                Some(pause) => format!("{login}. It is tried again in {pause}."),
                None => format!("{login}."),
            }
        }
        (StateKind::PermanentlyFailed, _) => {
            "It is not tried again: a person must fix its configuration and restart it.".to_owned()
        }
        (StateKind::Disconnected, Some(Reason::BudgetSpent) | None) => match next_try(now) {
            Some(pause) => format!("It is tried again in {pause}, or when a person restarts it."),
            None => "A person must restart it.".to_owned(),
        },
        (StateKind::Disconnected, Some(Reason::Lost)) => "A call starts it again, or a person.".to_owned(),
        (StateKind::Connecting | StateKind::Reconnecting, _) => match next_try(now) {
            Some(pause) => format!("It is tried again in {pause}: ask again then."),
            None => "Ask again in a moment.".to_owned(),
        },
        (StateKind::Disconnected, Some(Reason::Idle)) => "Ask again in a moment.".to_owned(),
        (StateKind::Connected, _) => {
            "It is listed again soon. Until then, its tools can be called by their exact names.".to_owned()
        }
    };
    remedy + &hint
}

/// How long it is until the server is tried again, where that is known.
fn next_try(now: &NotConnected) -> Option<String> {
    let at = now.next_retry?;
    let pause = at.duration_since(std::time::SystemTime::now());
    Some(seconds(pause.unwrap_or_default()))
}

fn failures(now: &NotConnected) -> String {
    match now.attempt {
        0 => String::new(),
        1 => ", 1 failure".to_owned(),
        n => format!(", {n} failures in a row"),
    }
}

/// Whether a call ran that cannot be repeated before a person acts.
fn whether_it_ran(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent | Outcome::Refused => "The call did not run.",
        _may_have_run => "The call may have run: check its effects.",
    }
}

/// What to do about it.
fn next_step(now: &NotConnected, advice: &Advice) -> String {
    let again = || next_try(now);
    let hint = advice.start_hint(now);
    let next = match (now.state, now.reason) {
        (StateKind::Disabled | StateKind::Disabling, _) => {
            "A person must enable the server; until then it cannot be called.".to_owned()
        }
        (StateKind::Disconnected, Some(Reason::AuthRequired)) => {
            let login = must_log_in(&now.server, challenge_of(now), advice);
            match again() {
                Some(pause) => format!("{login} The server is tried again in {pause}."),
                None => login,
            }
        }
        (StateKind::PermanentlyFailed, _) => {
            "A person must fix and restart the server; until then it cannot be called.".to_owned()
        }
        (StateKind::Disconnected, Some(Reason::BudgetSpent) | None) => match again() {
            Some(pause) => format!("The server is tried again in {pause}, or when a person restarts it."),
            None => "A person must restart the server; until then it cannot be called.".to_owned(),
        },
        (StateKind::Connecting | StateKind::Reconnecting, _) => match again() {
            Some(pause) => format!("The server is tried again in {pause}: call it again then."),
            None => "Call it again in a moment.".to_owned(),
        },
        (StateKind::Disconnected, Some(Reason::Idle | Reason::Lost)) | (StateKind::Connected, _) => {
            "Call it again in a moment.".to_owned()
        }
    };
    next + &hint
}

/// Text that the server wrote to stdout, where only messages may be.
fn misplaced(noise: Option<&str>) -> String {
    noise.map_or_else(String::new, |example| {
        format!(
            " Meanwhile the server wrote text to stdout that is no JSON-RPC message (\"{example}\"); it must write it to \
             stderr."
        )
    })
}

fn late(kind: TimeoutKind) -> &'static str {
    match kind {
        TimeoutKind::Idle => "neither an answer nor progress",
        TimeoutKind::Total => "it took too long in all",
        TimeoutKind::Person => "it waited for an answer of the client",
    }
}

/// Whether a call that was on its way has run, and what to do.
fn ran(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent | Outcome::Refused => "The call did not run. Call it again in a moment.",
        Outcome::Unknown => "The call may have run: check its effects before you call it again.",
        _answered => "The call has run: check its effects before you call it again.",
    }
}

/// Whether a call whose last round was refused has run.
fn refused(error: &CallError) -> &'static str {
    if error.may_have_run() {
        "The call may have run in part: check its effects."
    } else {
        "The call did not run."
    }
}

/// The same for programs.
fn facts_of(ran: Outcome) -> Value {
    json!({ "outcome": outcome(ran) })
}

fn facts(error: &CallError) -> Value {
    let mut facts = facts_of(error.outcome());
    if let Some(server) = error.server() {
        facts["server"] = json!(server);
    }
    if let Some(pause) = error.retry_after() {
        facts["retryAfterMs"] = json!(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
    }
    let mut challenge = None;
    if let Some(now) = error.not_connected() {
        facts["state"] = json!(now.state.to_string());
        facts["attempt"] = json!(now.attempt);
        facts["reason"] = json!(now.reason.map(Reason::as_str));
        let asked = now.last_error.as_ref().and_then(|error| error.challenge.as_ref());
        challenge = asked.filter(|_| now.reason == Some(Reason::AuthRequired));
    }
    if let CallErrorKind::AuthRequired { challenge: asked } = error.kind() {
        challenge = Some(asked);
    }
    if let Some(challenge) = challenge {
        facts["login"] = json!({
            "scopes": challenge.scopes,
            "resourceMetadata": challenge.resource_metadata,
            "error": challenge.error,
        });
    }
    facts
}

const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent => "not_sent",
        Outcome::Refused => "refused",
        Outcome::Unknown => "unknown",
        _answered => "answered",
    }
}

fn seconds(pause: Duration) -> String {
    format!("{:.1} s", pause.as_secs_f64().max(0.1))
}

#[cfg(test)]
mod tests;
