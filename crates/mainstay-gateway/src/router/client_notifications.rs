//! Notifications of clients. The gateway handles those that it knows, and forwards the others to the one server that the client sees, or in
//! the union to the servers that declare their extension.
//!
//! A notification belongs to the connection that its server has now. Without one it is dropped; so is one that the server
//! does not take in time.
//!
//! A shared server gets the roots of its caller while a call runs. Outside of calls it gets those of the one session that sees it,
//! and none where several do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mainstay::gateway::message::{Object, Params, RawJson, RpcError, process_payload};
use mainstay::gateway::{NotifyError, ServerExt};
use mainstay::handler::{Answer, ServerRequest};
use mainstay::{ClientHandler, Server};

use super::subscribers::TASK_STATUS;
use super::{Router, Subscribers, decisive};
use crate::client::Client;
use crate::principal::Principal;
use crate::protocol::{ClientMeta, without_client};
use crate::scope::Scope;

const PROGRESS: &str = "notifications/progress";

/// How long a client's next message waits for a server that reads slowly. After a timeout the gateway does not wait again until the
/// server takes something: the client may want to cancel.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

impl Router {
    /// Handles a notification of a client. When this returns, a notification for a server is queued there, before the client's next
    /// request. Fails for the method of a request.
    ///
    /// Cancel safety: dropped, it is handled whole or not at all.
    pub(crate) async fn handle_notification(
        &self,
        client: &Arc<Client>,
        method: &str,
        params: Option<&RawJson>,
    ) -> Result<(), RpcError> {
        check_is_notification(method)?;
        match method {
            "notifications/cancelled" => {
                let found = read_off_thread(params, |params| Object::find(params, ["requestId"])).await;
                if let Some([Some(id)]) = found {
                    client.running.cancel(&id);
                }
            }
            "notifications/initialized" => self.roots_may_have_changed(&client.scope),
            "notifications/roots/list_changed" => self.roots_changed(client),
            PROGRESS => self.forward_progress(client, params).await,
            _unknown => self.forward_notification(client, method, params).await,
        }
        Ok(())
    }

    /// Handles a notification of a client without a session. The gateway has no use for those that it knows: such a client cancels by
    /// closing its connection. Fails for the method of a request.
    ///
    /// Cancel safety: dropped, it is handled whole or not at all.
    pub(crate) async fn handle_sessionless_notification(
        &self,
        principal: Principal,
        scope: &Scope,
        method: &str,
        params: Option<&RawJson>,
    ) -> Result<(), RpcError> {
        check_is_notification(method)?;
        match method {
            "notifications/cancelled"
            | "notifications/initialized"
            | "notifications/roots/list_changed"
            | PROGRESS => {}
            _unknown => {
                let client = self.client_of_request(principal, scope.clone(), &ClientMeta::default());
                self.forward_notification(&client, method, params).await;
            }
        }
        Ok(())
    }

    async fn forward_notification(&self, client: &Client, method: &str, params: Option<&RawJson>) {
        match &client.scope {
            Scope::Server(name) => self.notify_server(client, name, method, params).await,
            Scope::Union => {
                for server in self.extended(client, method) {
                    self.notify_server(client, server.name(), method, params).await;
                }
            }
        }
    }

    async fn notify_server(&self, client: &Client, name: &str, method: &str, params: Option<&RawJson>) {
        let Some(server) = self.running(client, name) else {
            return tracing::debug!(method, server = %name, "not forwarded: the server does not run");
        };
        if method == TASK_STATUS && !client.tasks.have_server_ids() {
            // It would name the task of another client as well.
            return tracing::debug!(method, server = %name, "not forwarded: other clients use the server, too");
        }
        let params = Params::read(params.cloned()).await;
        if let Err(error) = params.check_members() {
            return tracing::debug!(method, %error, "notification dropped");
        }
        if let Err(error) = decisive::check(method, &params) {
            return tracing::debug!(method, error = error.message(), "notification dropped");
        }
        let params = match client.tasks.related_params(name, params).await {
            Ok(params) => params,
            Err(error) => return tracing::debug!(method, error = error.message(), "notification dropped"),
        };
        let params = match ClientMeta::read(&params).version {
            Some(_) => without_client(params),
            None => params,
        };
        let within = match client.last_notify_timed_out.load(Ordering::Relaxed) {
            true => Duration::ZERO,
            false => NOTIFY_TIMEOUT,
        };
        let notified = server.notify(method, params.to_raw().as_ref(), within).await;
        let last_notify_timed_out = matches!(notified, Err(NotifyError::Full { .. }));
        client
            .last_notify_timed_out
            .store(last_notify_timed_out, Ordering::Relaxed);
        if let Err(error) = notified {
            tracing::debug!(method, %error, "not forwarded");
        }
    }

    /// Forwards a client's progress with a server's request to that server, under the server's token.
    async fn forward_progress(&self, client: &Client, params: Option<&RawJson>) {
        let Some(mut progress) = read_off_thread(params, Object::parse).await else {
            return;
        };
        let Some(token) = progress.get("progressToken").cloned() else {
            return;
        };
        let Some(origin) = client.origin_of(&token) else {
            return tracing::debug!("not forwarded: progress of no request");
        };
        let server = self.running(client, &origin.server);
        let is_same_connection = |server: &Server| server.status().generation == Some(origin.generation);
        let Some(server) = server.filter(is_same_connection) else {
            return;
        };
        let respelt = origin.token.filter(|own| *own != token).map(|own| {
            progress.set("progressToken", own);
            progress.to_raw()
        });
        let params = Params::read(respelt.or_else(|| params.cloned())).await;
        let params = match client.tasks.related_params(&origin.server, params).await {
            Ok(params) => params.to_raw(),
            Err(error) => return tracing::debug!(error = error.message(), "progress dropped"),
        };
        // A later one says all that this one does, so the gateway does not wait for the server to take it.
        let notified = server.notify(PROGRESS, params.as_ref(), Duration::ZERO);
        if let Err(error) = notified.await {
            tracing::debug!(%error, "progress not forwarded");
        }
    }

    /// The client's roots changed: the servers that it sees ask again.
    pub(super) fn roots_changed(&self, client: &Client) {
        for server in self.shared_servers(&client.scope) {
            server.roots_changed();
        }
        if let Some(own) = client.own() {
            own.roots_changed();
        }
    }

    /// A session was opened or closed: a server that one session sees now may have been declined before, and asks again.
    pub(super) fn roots_may_have_changed(&self, scope: &Scope) {
        for server in self.shared_servers(scope) {
            let only = self.subscribers.only_session(server.name());
            if only.is_ok_and(|session| session.missing_capability_for("roots/list").is_none()) {
                server.roots_changed();
            }
        }
    }

    /// The servers of this scope that sessions share.
    fn shared_servers(&self, scope: &Scope) -> impl Iterator<Item = Server> {
        let servers = scope.servers(self.fleet()).into_iter();
        servers.filter(|server| !self.isolated.holds(server.name()))
    }
}

/// Reads parameters, on a thread that may block if they are large.
///
/// Cancel safety: dropping it changes nothing.
async fn read_off_thread<T: Send + 'static>(
    params: Option<&RawJson>,
    read: impl FnOnce(&RawJson) -> Option<T> + Send + 'static,
) -> Option<T> {
    let params = params?.clone();
    process_payload(params.as_bytes().len(), move || read(&params)).await
}

/// Refuses the method of a request in a message without an id. Its client may expect an answer. A server may run it, past
/// everything that the gateway checks in a request.
fn check_is_notification(method: &str) -> Result<(), RpcError> {
    if method.starts_with("notifications/") {
        return Ok(());
    }
    let what = "a request needs an id that is a string or a number";
    Err(RpcError::new(RpcError::INVALID_REQUEST, what))
}

impl Subscribers {
    /// Asks the one session that sees the server, where there is but one.
    pub(super) fn ask_for_roots(&self, request: ServerRequest) -> Answer<'static> {
        let session = self.only_session(&request.server);
        Box::pin(async move {
            match session {
                Ok(session) => session.request(request).await,
                Err(why) => Err(RpcError::new(
                    RpcError::INVALID_REQUEST,
                    format!("roots/list declined: {why}"),
                )),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;
    use crate::sessions::DoorKind;

    #[test]
    fn a_thread_that_may_block_reads_large_notifications() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let gateway = crate::fuzzing::gateway();
            let scope = Scope::Server("a".into());
            let client = gateway.0.open_session(scope, None, DoorKind::Stdio);
            for method in ["notifications/cancelled", PROGRESS, "notifications/x-vendor"] {
                let (release, released) = mpsc::channel::<()>();
                tokio::task::spawn_blocking(move || released.recv().is_err());
                let large = RawJson::from_text(format!(r#"{{"x":"{}"}}"#, "x".repeat(2 << 20))).unwrap();
                let handled = gateway.0.handle_notification(&client, method, Some(&large));
                let mut handled = std::pin::pin!(handled);
                let early = std::future::poll_fn(|context| Poll::Ready(handled.as_mut().poll(context)));
                assert!(
                    early.await.is_pending(),
                    "{method} was read on the runtime's own thread"
                );
                drop(release);
                handled.await.unwrap();
            }
        });
    }
}
