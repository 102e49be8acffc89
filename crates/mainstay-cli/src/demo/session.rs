//! One client's session: its requests by method, its running calls, its log level.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time;

use super::protocol::{self, DemoEra, DemoError, DemoMessage, DemoRequest, LOG_LEVELS};
use super::{offers, tools};

/// A demo that runs more than this at once is being misused.
const MAX_RUNNING_CALLS: usize = 64;

/// Enough for a quick call to be answered after the input has ended, as when it is piped in; a sleeping one is dropped.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// Serves one client.
pub(super) struct DemoSession {
    output: mpsc::Sender<String>,
    /// Running calls by the JSON text of their id, which tells `1` from `"1"`.
    running: BTreeMap<String, AbortHandle>,
    /// The tasks of these calls; dropping the session ends them.
    tasks: JoinSet<()>,
    log_level: &'static str,
}

impl DemoSession {
    pub(super) fn new(output: mpsc::Sender<String>) -> Self {
        Self {
            output,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            log_level: "info",
        }
    }

    /// Serves one line; blank ones are ignored.
    ///
    /// # Cancel safety
    /// Not safe: the answer may be lost.
    pub(super) async fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match protocol::read(line) {
            Ok(DemoMessage::Request(request)) => self.request(request).await,
            Ok(DemoMessage::Notification { method, params }) => self.notification(&method, &params),
            Ok(DemoMessage::Response) => {}
            Err((id, error)) => self.answer(&id, Err(error)).await,
        }
    }

    /// Answers a line that was too long to be read.
    ///
    /// # Cancel safety
    /// As [`Session::line`].
    pub(super) async fn line_too_long(&mut self) {
        self.answer(
            &Value::Null,
            Err(DemoError::invalid_request("the message is too long")),
        )
        .await;
    }

    /// Lets quick calls finish, and drops the others.
    ///
    /// # Cancel safety
    /// Safe: dropped early, it drops the calls early.
    pub(super) async fn end(mut self) {
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        // Calls that take longer are dropped with the session.
        let _dropped = time::timeout(LAST_ANSWERS, finished).await;
    }

    async fn request(&mut self, request: DemoRequest) {
        let outcome = match DemoEra::of(&request) {
            Ok(era) if request.method == "tools/call" => match self.start_call(era, &request) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Ok(era) => self.serve(era, &request),
            Err(error) => Err(error),
        };
        self.answer(&request.id, outcome).await;
    }

    fn serve(&mut self, era: DemoEra, request: &DemoRequest) -> Result<Value, DemoError> {
        let params = &request.params;
        let (cacheable, result) = match (era, request.method.as_str()) {
            (DemoEra::Modern, "server/discover") => (true, protocol::discover()),
            (DemoEra::Legacy, "initialize") => (false, protocol::initialize(params)?),
            (DemoEra::Legacy, "ping") => (false, json!({})),
            (DemoEra::Legacy, "logging/setLevel") => {
                self.log_level = known_level(params.get("level"))?;
                (false, json!({}))
            }
            (_, "tools/list") => (true, one_page(params, json!({ "tools": tools::definitions() }))?),
            (_, "prompts/list") => (true, one_page(params, json!({ "prompts": offers::prompts() }))?),
            (_, "resources/list") => (
                true,
                one_page(params, json!({ "resources": offers::resources() }))?,
            ),
            (_, "resources/templates/list") => (
                true,
                one_page(params, json!({ "resourceTemplates": offers::templates() }))?,
            ),
            (_, "prompts/get") => (false, offers::get_prompt(params)?),
            (_, "resources/read") => (true, offers::read_resource(era, params)?),
            (_, method) => return Err(DemoError::method_not_found(method)),
        };
        Ok(protocol::dress(era, cacheable, result))
    }

    /// Starts the call as a task, which answers by itself.
    fn start_call(&mut self, era: DemoEra, request: &DemoRequest) -> Result<(), DemoError> {
        let call = tools::DemoCall::read(&request.params)?;
        let threshold = match (era, protocol::protocol_meta(&request.params, "logLevel")) {
            (DemoEra::Legacy, _) => Some(self.log_level),
            (DemoEra::Modern, None) => None,
            (DemoEra::Modern, level @ Some(_)) => Some(known_level(level)?),
        };
        while self.tasks.try_join_next().is_some() {}
        self.running.retain(|_, call| !call.is_finished());
        let key = request.id.to_string();
        if self.running.contains_key(&key) {
            return Err(DemoError::invalid_request("a call with this id is still running"));
        }
        if self.running.len() >= MAX_RUNNING_CALLS {
            return Err(DemoError::busy("too many calls are running"));
        }
        let output = self.output.clone();
        let reporter = tools::Reporter::new(output.clone(), &request.params, threshold);
        let id = request.id.clone();
        let call = self.tasks.spawn(async move {
            let outcome = call
                .run(&reporter)
                .await
                .map(|result| protocol::dress(era, false, result));
            // A client that no longer reads needs no answer.
            let _gone = output.send(protocol::answer(&id, outcome)).await;
        });
        self.running.insert(key, call);
        Ok(())
    }

    fn notification(&mut self, method: &str, params: &Map<String, Value>) {
        if method == "notifications/cancelled"
            && let Some(call) = params
                .get("requestId")
                .and_then(|id| self.running.remove(&id.to_string()))
        {
            call.abort();
        }
    }

    async fn answer(&self, id: &Value, outcome: Result<Value, DemoError>) {
        // A client that no longer reads needs no answer.
        let _gone = self.output.send(protocol::answer(id, outcome)).await;
    }
}

/// Every listing fits on one page, so no cursor was ever given.
fn one_page(params: &Map<String, Value>, result: Value) -> Result<Value, DemoError> {
    match params.get("cursor") {
        None | Some(Value::Null) => Ok(result),
        Some(_) => Err(DemoError::invalid_params("no such cursor")),
    }
}

fn known_level(level: Option<&Value>) -> Result<&'static str, DemoError> {
    let known = LOG_LEVELS.iter().find(|known| level == Some(&json!(known)));
    known
        .copied()
        .ok_or_else(|| DemoError::invalid_params(format!("level must be one of {}", LOG_LEVELS.join(", "))))
}
