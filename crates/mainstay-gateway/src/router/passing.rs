//! A request that a server must answer, passed on with as few changes as the difference between the two sides needs.

use std::pin::pin;
use std::sync::Arc;

use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{self, Params, RawJson, RpcError};
use mainstay::{CallError, CallErrorKind, CallOptions, Era, Reply, Server};
use tokio::sync::mpsc;

use super::naming::Addressed;
use super::{Request, Router, tasks};
use crate::client::Outbox;
use crate::failure;
use crate::protocol::{RESOURCE_NOT_FOUND, completed, invalid_params, without_client};

/// Progress notifications that wait for a slow client; more are dropped, as each says all that the ones before it did.
const PROGRESS: usize = 32;

impl Router {
    pub(super) async fn pass(&self, mut request: Request<'_>) -> Result<RawJson, RpcError> {
        match request.client.era {
            Era::Legacy => {
                let Addressed { reached, params } = self.address(&mut request)?;
                self.parked.hurry(&reached);
                // The session as a whole answers what its calls make a server ask.
                let options = reached.options(request.client);
                let reply = forward(&reached.server, &request, params, options).await;
                answer(&request, reached.server.name(), reply).await
            }
            Era::Modern => self.pass_in_rounds(request).await,
        }
    }

    /// A method that the gateway does not know, for the one server that may.
    pub(super) async fn pass_unknown(
        &self,
        name: &str,
        mut request: Request<'_>,
    ) -> Result<RawJson, RpcError> {
        let reached = self.reach(request.client, name)?;
        let options = match request.client.era {
            Era::Legacy => reached.options(request.client),
            Era::Modern => CallOptions::default().handler(request.client.clone()),
        };
        let params = request.take_params();
        let params = as_sent(&request, params);
        let reply = forward(&reached.server, &request, params, options).await;
        answer(&request, reached.server.name(), reply).await
    }
}

/// What the client is answered with.
pub(super) async fn answer(
    request: &Request<'_>,
    server: &str,
    reply: Result<Reply, CallError>,
) -> Result<RawJson, RpcError> {
    if let Err(CallError {
        server: Some(server),
        kind: CallErrorKind::Rpc(error),
        ..
    }) = &reply
    {
        request.client.elicited.note_refusal(server, error);
    }
    let era = request.client.era;
    match reply {
        Ok(reply) => {
            let result = tasks::published(request, server, reply.result);
            let (length, method) = (result.as_bytes().len(), request.method.to_owned());
            let complete = move || completed(result, &method, era);
            Ok(message::process_payload(length, complete).await)
        }
        Err(error) if request.method == "tools/call" => {
            failure::tool_result(&error).map(|result| completed(result, request.method, era))
        }
        Err(error) => Err(in_words_of(request, failure::answer(&error))),
    }
}

/// A server's error as the client's era has it: a resource that is not there has a code of its own in the legacy era
/// alone.
fn in_words_of(request: &Request<'_>, error: RpcError) -> RpcError {
    let is_missing_resource = request.method == "resources/read" && error.code() == RESOURCE_NOT_FOUND;
    match request.client.era {
        Era::Modern if is_missing_resource => {
            let translated = invalid_params(error.message());
            match error.data() {
                Some(data) => translated.with_data(data.clone()),
                None => translated,
            }
        }
        Era::Legacy | Era::Modern => error,
    }
}

/// The parameters without what only the gateway is to know.
pub(super) fn as_sent(request: &Request<'_>, params: Params) -> Params {
    match request.client.era {
        Era::Legacy => params,
        Era::Modern => without_client(params),
    }
}

/// Makes the request at the server; its progress goes to the client meanwhile, if the client asked for it.
pub(super) async fn forward(
    server: &Server,
    request: &Request<'_>,
    params: Params,
    options: CallOptions,
) -> Result<Reply, CallError> {
    if request.meta.progress_token.is_none() {
        return server.forward(request.method, params, options).await;
    }
    let (progress, mut told) = mpsc::channel(PROGRESS);
    let mut reply = pin!(server.forward(request.method, params, options.progress(progress)));
    loop {
        tokio::select! {
            biased;
            Some(params) = told.recv() => tell(request.line, &params),
            reply = &mut reply => {
                // What came before the answer is told before it; what comes from now on is late.
                told.close();
                while let Ok(params) = told.try_recv() {
                    tell(request.line, &params);
                }
                return reply;
            }
        }
    }
}

/// Tells a client of progress, which it can miss: a flood of it takes the place of no answer.
pub(super) fn tell(line: &Arc<dyn Outbox>, params: &RawJson) {
    line.offer(message::notification("notifications/progress", Some(params)));
}
