//! What is asked of a server for longer than one connection, and how it is seen that the server knows.

use std::time::Duration;

use mainstay::handler::ServerNotification;
use mainstay::{CallOptions, ClientHandler, Server};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::partners::LONG;

/// A subscription may be under way still when the resource changes; then it is changed again.
const AGAIN: Duration = Duration::from_millis(500);

/// How a server shows what was asked of it.
#[derive(Clone, Copy)]
pub(crate) enum Subscriptions {
    /// In this era it grants none.
    None,
    /// Its tool `touch` changes the resource, and its tool `level` tells the log level.
    Notified { resource: &'static str },
    /// The reference server: it has resources without end, logs at level `info` whenever one is subscribed to, and
    /// pretends changes of them all.
    Simulated,
}

impl Subscriptions {
    /// Asks for all that the server can grant, and sees it granted.
    pub(crate) async fn make(self, server: &Server, heard: &mut Heard) {
        match self {
            Self::None => {}
            Self::Notified { resource } => {
                server.subscribe(resource).await.unwrap();
                server.set_log_level("error").await.unwrap();
                self.are_kept(server, heard).await;
            }
            Self::Simulated => {
                server.subscribe(&simulated(1)).await.unwrap();
                heard
                    .change_of(&simulated(1), server, "toggle-subscriber-updates")
                    .await;
                server.subscribe(&simulated(2)).await.unwrap();
                heard.log_of(&simulated(2)).await;
                server.set_log_level("error").await.unwrap();
            }
        }
    }

    /// Sees that the server of this connection knows, though nobody asked again.
    pub(crate) async fn are_kept(self, server: &Server, heard: &mut Heard) {
        match self {
            Self::None => {}
            Self::Notified { resource } => {
                heard.change_of(resource, server, "touch").await;
                assert!(call(server, "level").await.contains("error"));
            }
            Self::Simulated => {
                heard
                    .change_of(&simulated(1), server, "toggle-subscriber-updates")
                    .await;
                server.subscribe(&simulated(3)).await.unwrap();
                heard
                    .change_of(&simulated(3), server, "toggle-subscriber-updates")
                    .await;
                assert!(!heard.has_log_of(&simulated(3)), "logged below the level set");
            }
        }
    }
}

fn simulated(number: u32) -> String {
    format!("demo://resource/dynamic/text/{number}")
}

async fn call(server: &Server, tool: &str) -> String {
    let options = CallOptions::default().timeout(LONG);
    let reply = server.call(tool, &json!({})).options(options).await.unwrap();
    reply.result.as_str().to_owned()
}

/// Hears what a server says unasked.
pub(crate) struct NotificationReader(mpsc::UnboundedSender<ServerNotification>);

impl NotificationReader {
    pub(crate) fn new() -> (Self, Heard) {
        let (to, from) = mpsc::unbounded_channel();
        (
            Self(to),
            Heard {
                from,
                logs: Vec::new(),
            },
        )
    }
}

impl ClientHandler for NotificationReader {
    fn notification(&self, notification: ServerNotification) {
        // A test that is over hears no more.
        let _ = self.0.send(notification);
    }
}

/// What was heard.
pub(crate) struct Heard {
    from: mpsc::UnboundedReceiver<ServerNotification>,
    /// The log messages among it.
    logs: Vec<String>,
}

impl Heard {
    /// Calls the tool that changes a resource until the live connection tells of the change.
    async fn change_of(&mut self, resource: &str, server: &Server, tool: &str) {
        let generation = server.status().generation;
        let told = async {
            loop {
                call(server, tool).await;
                let change = async {
                    loop {
                        let next = self.next().await;
                        if Some(next.generation) == generation && is_change_of(resource, &next) {
                            return;
                        }
                    }
                };
                if timeout(AGAIN, change).await.is_ok() {
                    return;
                }
            }
        };
        timeout(LONG, told)
            .await
            .expect("a change of the resource is told");
    }

    async fn log_of(&mut self, resource: &str) {
        let told = async {
            while !self.has_log_of(resource) {
                self.next().await;
            }
        };
        timeout(LONG, told).await.expect("the subscription is logged");
    }

    fn has_log_of(&self, resource: &str) -> bool {
        self.logs.iter().any(|message| message.contains(resource))
    }

    async fn next(&mut self) -> ServerNotification {
        let next = self.from.recv().await.expect("the fleet has its reader");
        if next.method == "notifications/message" {
            self.logs
                .extend(next.params.as_ref().map(|params| params.as_str().to_owned()));
        }
        next
    }
}

fn is_change_of(resource: &str, notification: &ServerNotification) -> bool {
    notification.method == "notifications/resources/updated"
        && notification
            .params
            .as_ref()
            .is_some_and(|params| params.as_str().contains(resource))
}
