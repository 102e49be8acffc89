//! What can be asked of a server: tools, prompts, resources, completions, any other method, and lasting interests.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::json;

use super::Server;
use super::call::{Call, Repeatable, Request};
use super::error::{CallError, CallErrorKind};
use crate::connection::MAX_SUBSCRIPTIONS;
use crate::protocol::{Capability, Era};
use crate::wire::{Outcome, RawJson, RequestError};

impl Server {
    /// Calls a tool by the name that the server gave it, or that the configuration gave it instead.
    pub fn call(&self, tool: &str, arguments: &impl Serialize) -> Call {
        let view = self.0.settings.load().view.clone();
        self.call_original(view.original_name(tool), arguments)
    }

    /// Calls a tool by the name that the server gave it.
    pub(crate) fn call_original(&self, tool: &str, arguments: &impl Serialize) -> Call {
        if !self.0.settings.load().view.admits(tool) {
            let tool = tool.to_owned();
            return Call::failed(CallError::not_sent(&self.0.name, CallErrorKind::Hidden { tool }));
        }
        let params = NamedParams {
            name: tool,
            arguments,
        };
        self.build("tools/call", &params, Repeatable::AsHinted, None)
    }

    /// Gets a prompt. It only reads, so a lost connection leads to one replay. A server that declares no prompts is not
    /// asked.
    pub fn prompt(&self, prompt: &str, arguments: &impl Serialize) -> Call {
        let params = NamedParams {
            name: prompt,
            arguments,
        };
        self.read("prompts/get", Capability::Prompts, &params)
    }

    /// Reads a resource. A lost connection leads to one replay. A server that declares no resources is not asked.
    pub fn read_resource(&self, uri: &str) -> Call {
        self.read("resources/read", Capability::Resources, &json!({ "uri": uri }))
    }

    /// Completes an argument of a prompt or of a resource template; `reference` and `argument` as the protocol has them. A
    /// server that declares no completions is not asked.
    pub fn complete(&self, reference: &impl Serialize, argument: &impl Serialize) -> Call {
        #[derive(Serialize)]
        struct Params<'a, R, A> {
            r#ref: &'a R,
            argument: &'a A,
        }
        let params = Params {
            r#ref: reference,
            argument,
        };
        self.read("completion/complete", Capability::Completions, &params)
    }

    /// Makes any request; its parameters pass as they are. It is never replayed if it may have run.
    pub fn request(&self, method: &str, params: Option<RawJson>) -> Call {
        let request = Request {
            method: Cow::Owned(method.to_owned()),
            params: params.into(),
            repeatable: Repeatable::Never,
            needs: None,
        };
        Call::new(self, Ok(request))
    }

    fn read(&self, method: &'static str, needs: Capability, params: &impl Serialize) -> Call {
        self.build(method, params, Repeatable::Always, Some(needs))
    }

    fn build(
        &self,
        method: &'static str,
        params: &impl Serialize,
        repeatable: Repeatable,
        needs: Option<Capability>,
    ) -> Call {
        let request = RawJson::from_value(params).map(|params| Request {
            method: Cow::Borrowed(method),
            params: Some(params).into(),
            repeatable,
            needs,
        });
        Call::new(self, request.map_err(|error| bad_arguments(&error)))
    }

    /// Subscribes to changes of a resource, on this connection and on every one after it. The changes go to the fleet's
    /// handler. While the server is not connected, the subscription waits for the next connection. Mainstay drops a
    /// subscription that the server refuses.
    ///
    /// Cancel safety: dropped, the subscription stays.
    pub async fn subscribe(&self, uri: &str) -> Result<(), CallError> {
        let is_kept = self.0.change_interests(|interests| {
            if interests.resources.len() < MAX_SUBSCRIPTIONS {
                interests.resources.insert(uri.to_owned());
            }
            interests.resources.contains(uri)
        });
        if !is_kept {
            let kind = CallErrorKind::TooManySubscriptions {
                limit: MAX_SUBSCRIPTIONS,
            };
            return Err(CallError::not_sent(&self.0.name, kind));
        }
        let Some(connection) = self.0.current.load_full() else {
            return Ok(());
        };
        let sent = match connection.greeting.era {
            Era::Legacy => {
                // A server that speaks both eras may know subscriptions in one of them only.
                connection.listen();
                let sent = connection.subscribe(uri).await;
                if let Err(RequestError::Rpc(_)) = &sent {
                    if connection.takes_modern_requests() {
                        return Ok(());
                    }
                    self.0.change_interests(|interests| {
                        interests.resources.remove(uri);
                    });
                }
                sent
            }
            Era::Modern => {
                connection.listen();
                Ok(())
            }
        };
        self.refusal_of(&connection, sent)
    }

    /// Ends a subscription.
    ///
    /// Cancel safety: dropped, the subscription ends all the same, at the latest with the connection.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), CallError> {
        self.0.change_interests(|interests| {
            interests.resources.remove(uri);
        });
        let Some(connection) = self.0.current.load_full() else {
            return Ok(());
        };
        let sent = match connection.greeting.era {
            Era::Legacy => {
                connection.listen();
                connection.unsubscribe(uri).await
            }
            Era::Modern => {
                connection.listen();
                Ok(())
            }
        };
        self.refusal_of(&connection, sent)
    }

    /// Sets how much the server logs, on this connection and on every one after it.
    ///
    /// Cancel safety: dropped, the level stays.
    pub async fn set_log_level(&self, level: &str) -> Result<(), CallError> {
        let level = RawJson::from_value(level).map_err(|error| bad_arguments(&error))?;
        self.0
            .change_interests(|interests| interests.log_level = Some(level.clone()));
        let Some(connection) = self.0.current.load_full() else {
            return Ok(());
        };
        let sent = match connection.greeting.era {
            Era::Legacy => connection.set_log_level(&level).await,
            // The level travels with each request.
            Era::Modern => Ok(()),
        };
        self.refusal_of(&connection, sent)
    }

    /// Notifies the server, if it is connected, that the client's roots changed. The server asks for them again.
    pub fn roots_changed(&self) {
        if let Some(connection) = self.0.current.load_full() {
            connection
                .peer
                .try_notify("notifications/roots/list_changed", None);
        }
    }

    /// Only a refusal is the caller's concern: the next connection restores what a lost one was not sent.
    fn refusal_of(
        &self,
        connection: &crate::connection::Connection,
        sent: Result<(), RequestError>,
    ) -> Result<(), CallError> {
        match sent {
            Ok(()) | Err(RequestError::Lost { .. }) => Ok(()),
            Err(error) => Err(self.0.call_error(error, connection.generation, None)),
        }
    }
}

/// The parameters of what is called by a name. They are written directly: a value type in between would respell numbers.
#[derive(Serialize)]
struct NamedParams<'a, A> {
    name: &'a str,
    arguments: &'a A,
}

fn bad_arguments(error: &serde_json::Error) -> CallError {
    let kind = CallErrorKind::BadArguments(error.to_string());
    CallError::new(None, None, Outcome::NotSent, kind)
}
