//! What can be asked of a server: tools, prompts, resources, completions, and any other method.

use serde::Serialize;
use serde_json::json;

use super::Server;
use super::call::{Call, Repeatable, Reply, named};
use super::error::CallError;
use super::options::CallOptions;
use crate::connection::MAX_SUBSCRIPTIONS;
use crate::protocol::{Capability, Era};
use crate::wire::{Params, RawJson, RequestError};

/// A resource subscription or a log level could not be set.
pub type WishError = CallError;

impl Server {
    /// Calls a tool by the name that the server gave it, or that the configuration gave it instead.
    ///
    /// Cancel safety: dropping it cancels the call at the server.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &impl Serialize,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        let view = self.0.settings.load().view.clone();
        self.call_original(view.original_name(tool), arguments, options)
            .await
    }

    /// Calls a tool by the name that the server gave it.
    ///
    /// Cancel safety: dropping it cancels the call at the server.
    pub(crate) async fn call_original(
        &self,
        tool: &str,
        arguments: &impl Serialize,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        if !self.0.settings.load().view.admits(tool) {
            return Err(CallError::Hidden {
                server: self.0.name.clone(),
                tool: tool.to_owned(),
            });
        }
        let params = Named {
            name: tool,
            arguments,
        };
        let params = RawJson::from_value(&params).map_err(|error| bad_arguments(&error))?;
        self.0
            .call(
                Call {
                    method: "tools/call",
                    params: Some(params).into(),
                    repeatable: Repeatable::AsHinted(tool),
                    needs: None,
                },
                &options,
            )
            .await
    }

    /// Gets a prompt. Prompts only read, so a lost connection is answered by one replay. A server that says that it has none is
    /// not asked.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub async fn prompt(
        &self,
        prompt: &str,
        arguments: &impl Serialize,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        let params = Named {
            name: prompt,
            arguments,
        };
        self.read("prompts/get", Capability::Prompts, &params, options)
            .await
    }

    /// Reads a resource. Reading only reads, so a lost connection is answered by one replay. A server that says that it has
    /// none is not asked.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub async fn read_resource(&self, uri: &str, options: CallOptions) -> Result<Reply, CallError> {
        self.read(
            "resources/read",
            Capability::Resources,
            &json!({ "uri": uri }),
            options,
        )
        .await
    }

    /// Completes an argument of a prompt or of a resource template; `reference` and `argument` as the protocol has them. A server
    /// that says that it does not complete is not asked.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub async fn complete(
        &self,
        reference: &impl Serialize,
        argument: &impl Serialize,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        #[derive(Serialize)]
        struct Params<'a, R, A> {
            r#ref: &'a R,
            argument: &'a A,
        }
        let params = Params {
            r#ref: reference,
            argument,
        };
        self.read("completion/complete", Capability::Completions, &params, options)
            .await
    }

    /// Makes any request; its parameters pass as they are. It is never replayed if it may have run.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub async fn request(
        &self,
        method: &str,
        params: Option<RawJson>,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        self.0
            .call(
                Call {
                    method,
                    params: params.into(),
                    repeatable: Repeatable::Never,
                    needs: None,
                },
                &options,
            )
            .await
    }

    /// Passes a request on as it is, names and all, whatever the server says that it can. Its method tells whether it may
    /// be made again when it may have run: what only lists, gets, reads or completes may; a tool may as it hints; nothing
    /// else.
    ///
    /// Parameters that were read on the way are not read again, and what was edited of them is put together as they are
    /// written.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub async fn forward(
        &self,
        method: &str,
        params: impl Into<Params>,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        let params = params.into();
        if method == "tools/call" {
            self.check_shown(&params)?;
        }
        let repeatable = match method {
            "tools/call" => Repeatable::AsNamedHints,
            "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "prompts/get"
            | "resources/read"
            | "completion/complete"
            | "tasks/get"
            | "tasks/list"
            | "ping" => Repeatable::Always,
            _other => Repeatable::Never,
        };
        let call = Call {
            method,
            params,
            repeatable,
            needs: None,
        };
        self.0.call(call, &options).await
    }

    /// Refuses a call of a tool that is hidden. Where none is, nobody looks at the name.
    fn check_shown(&self, params: &Params) -> Result<(), CallError> {
        let settings = self.0.settings.load();
        if !settings.view.hides() {
            return Ok(());
        }
        let tool = named(params);
        if settings.view.admits(&tool) {
            return Ok(());
        }
        let server = self.0.name.clone();
        Err(CallError::Hidden { server, tool })
    }

    async fn read(
        &self,
        method: &str,
        needs: Capability,
        params: &impl Serialize,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        let params = RawJson::from_value(params).map_err(|error| bad_arguments(&error))?;
        self.0
            .call(
                Call {
                    method,
                    params: Some(params).into(),
                    repeatable: Repeatable::Always,
                    needs: Some(needs),
                },
                &options,
            )
            .await
    }

    /// Subscribes to changes of a resource, on this connection and on every one after it. The changes go to the fleet's
    /// handler. While the server is not connected the wish is kept for when it is. One that the server refuses is not kept.
    ///
    /// Cancel safety: dropped, the wish is kept.
    pub async fn subscribe(&self, uri: &str) -> Result<(), WishError> {
        let is_kept = self.0.change_interests(|interests| {
            if interests.resources.len() < MAX_SUBSCRIPTIONS {
                interests.resources.insert(uri.to_owned());
            }
            interests.resources.contains(uri)
        });
        if !is_kept {
            return Err(CallError::TooManySubscriptions {
                server: self.0.name.clone(),
                limit: MAX_SUBSCRIPTIONS,
            });
        }
        let Some(connection) = self.0.current.load_full() else {
            return Ok(());
        };
        let told = match connection.greeting.era {
            Era::Legacy => {
                let told = connection.subscribe(uri).await;
                if let Err(RequestError::Rpc(_)) = &told {
                    // What the server refuses today it is not asked for again tomorrow.
                    self.0.change_interests(|interests| {
                        interests.resources.remove(uri);
                    });
                }
                told
            }
            Era::Modern => {
                connection.listen();
                Ok(())
            }
        };
        self.wish_told(&connection, told)
    }

    /// Ends a subscription.
    ///
    /// Cancel safety: dropped, the wish is forgotten all the same.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), WishError> {
        self.0.change_interests(|interests| {
            interests.resources.remove(uri);
        });
        let Some(connection) = self.0.current.load_full() else {
            return Ok(());
        };
        let told = match connection.greeting.era {
            Era::Legacy => connection.unsubscribe(uri).await,
            Era::Modern => {
                connection.listen();
                Ok(())
            }
        };
        self.wish_told(&connection, told)
    }

    /// Sets how much the server logs, on this connection and on every one after it.
    ///
    /// Cancel safety: dropped, the wish is kept.
    pub async fn set_log_level(&self, level: &str) -> Result<(), WishError> {
        let level = RawJson::from_value(level).map_err(|error| bad_arguments(&error))?;
        self.0
            .change_interests(|interests| interests.log_level = Some(level.clone()));
        let Some(connection) = self.0.current.load_full() else {
            return Ok(());
        };
        let told = match connection.greeting.era {
            Era::Legacy => connection.set_log_level(&level).await,
            // It travels with each request.
            Era::Modern => Ok(()),
        };
        self.wish_told(&connection, told)
    }

    /// Tells the server, if it is connected, that the roots of its client changed; it asks for them again.
    pub fn roots_changed(&self) {
        if let Some(connection) = self.0.current.load_full() {
            connection
                .peer
                .try_notify("notifications/roots/list_changed", None);
        }
    }

    /// A wish that met a dying connection is restored on the next one; only a refusal is the caller's concern.
    fn wish_told(
        &self,
        connection: &crate::connection::Connection,
        told: Result<(), RequestError>,
    ) -> Result<(), WishError> {
        match told {
            Ok(()) | Err(RequestError::Lost { .. }) => Ok(()),
            Err(error) => Err(CallError::of(
                error,
                self.0.name.clone(),
                connection.generation,
                None,
            )),
        }
    }
}

/// The parameters of what is called by a name. Written as they come: a value type in between would respell numbers.
#[derive(Serialize)]
struct Named<'a, A> {
    name: &'a str,
    arguments: &'a A,
}

fn bad_arguments(error: &serde_json::Error) -> CallError {
    CallError::BadArguments(error.to_string())
}
