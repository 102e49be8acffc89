//! What a client tells of its own accord: the gateway acts on what it knows, and passes on what only a server may know.
//!
//! A notification belongs to the connection that its server has now. Without one it is dropped; so is one that the server
//! does not take in time. In the union nothing says which server it would be for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mainstay::message::{Object, Params, RawJson};
use mainstay::{NotifyError, Server};

use super::Router;
use crate::client::Client;
use crate::principal::Principal;
use crate::protocol::{RequestMeta, without_client};
use crate::scope::Scope;

const PROGRESS: &str = "notifications/progress";

/// How long a client that tells something is made to wait for a server that reads slowly. When that was in vain, it is not
/// made to wait again until the server takes something: it may want to cancel.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);

impl Router {
    /// Hears what a client tells. What is for a server is queued there when this is done, before whatever the client asks next.
    ///
    /// Cancel safety: dropped, it is heard whole or not at all.
    pub(crate) async fn hear(&self, client: &Arc<Client>, method: &str, params: Option<&RawJson>) {
        if let Err(error) = Params::new(params.cloned()).check_members() {
            return tracing::debug!(method, %error, "notification dropped");
        }
        match method {
            "notifications/cancelled" => {
                let id = params
                    .and_then(Object::parse)
                    .and_then(|params| params.get("requestId").cloned());
                if let Some(id) = id {
                    client.running.cancel(&id);
                }
            }
            "notifications/initialized" => self.roots_may_have_changed(&client.scope),
            "notifications/roots/list_changed" => self.roots_changed(client),
            PROGRESS => self.pass_progress(client, params).await,
            _unknown => self.pass_on(client, method, params).await,
        }
    }

    /// Hears what a client without a session tells. Of what the protocol knows it has nothing to say: it cancels by going away.
    ///
    /// Cancel safety: dropped, it is heard whole or not at all.
    pub(crate) async fn hear_stranger(
        &self,
        principal: Principal,
        scope: &Scope,
        method: &str,
        params: Option<&RawJson>,
    ) {
        match method {
            "notifications/cancelled"
            | "notifications/initialized"
            | "notifications/roots/list_changed"
            | PROGRESS => {}
            _unknown => {
                let stranger = self.admit(principal, scope.clone(), &RequestMeta::default());
                self.pass_on(&stranger, method, params).await;
            }
        }
    }

    async fn pass_on(&self, client: &Client, method: &str, params: Option<&RawJson>) {
        let Scope::Server(name) = &client.scope else {
            return tracing::debug!(method, "not passed on: nothing says which server it is for");
        };
        let Some(server) = self.running(client, name) else {
            return tracing::debug!(method, server = %name, "not passed on: it does not run");
        };
        let params = Params::new(params.cloned());
        if let Err(error) = params.check_members() {
            return tracing::debug!(method, %error, "notification dropped");
        }
        let params = match RequestMeta::read(&params).version {
            Some(_) => without_client(params),
            None => params,
        };
        let within = match client.last_notify_timed_out.load(Ordering::Relaxed) {
            true => Duration::ZERO,
            false => TAKEN_WITHIN,
        };
        let told = server.notify(method, params.to_raw().as_ref(), within).await;
        let last_notify_timed_out = matches!(told, Err(NotifyError::Full { .. }));
        client
            .last_notify_timed_out
            .store(last_notify_timed_out, Ordering::Relaxed);
        if let Err(error) = told {
            tracing::debug!(method, %error, "not passed on");
        }
    }

    /// The client's progress with something that a server asked: for that server, under the token that it gave.
    async fn pass_progress(&self, client: &Client, params: Option<&RawJson>) {
        let Some(mut progress) = params.and_then(Object::parse) else {
            return;
        };
        let Some(token) = progress.get("progressToken").cloned() else {
            return;
        };
        let Some(origin) = client.asked_under(&token) else {
            return tracing::debug!("progress with nothing that was asked");
        };
        let server = self.running(client, &origin.server);
        let asks_still = |server: &Server| server.status().generation == Some(origin.generation);
        let Some(server) = server.filter(asks_still) else {
            return;
        };
        let respelt = origin.token.filter(|own| *own != token).map(|own| {
            progress.set("progressToken", own);
            progress.to_raw()
        });
        let known = respelt.as_ref().or(params).cloned();
        let known = known.map(|params| client.tasks.as_known(params));
        // The latest says all that those before it did, so none is waited for.
        let told = server.notify(PROGRESS, known.as_ref(), Duration::ZERO);
        if let Err(error) = told.await {
            tracing::debug!(%error, "progress not passed on");
        }
    }
}
