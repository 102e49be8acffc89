//! The least client that can make a call: requests are numbered, answers matched to them, and each has a timeout.
//!
//! It is the yardstick: the same transport, and nothing of what Mainstay is for. A client in earnest does more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mainstay::transport::{End, Frame, Inbound, Outbound, Oversized, Purpose, SendFailure, Transport};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::Fallible;

const TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct BarePeer {
    next: AtomicU64,
    outbound: Arc<dyn Outbound>,
    pending: Arc<BarePending>,
}

#[derive(Default)]
struct BarePending(Mutex<HashMap<u64, oneshot::Sender<Bytes>>>);

impl BarePeer {
    pub(crate) fn start(transport: Box<dyn Transport>) -> Self {
        let outbound = transport.outbound();
        let pending = Arc::new(BarePending::default());
        transport.start(pending.clone());
        Self {
            next: AtomicU64::new(1),
            outbound,
            pending,
        }
    }

    /// Shakes hands and lists the tools, as every client must.
    pub(crate) async fn begin(&self) -> Fallible {
        self.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "bare", "version": "1" },
            }),
        )
        .await?;
        let initialized =
            Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        self.outbound
            .send(Frame::new(initialized, Purpose::Notification))
            .await?;
        self.request("tools/list", &json!({})).await?;
        Ok(())
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &impl Serialize) -> Fallible<Bytes> {
        #[derive(Serialize)]
        struct Params<'a, A> {
            name: &'a str,
            arguments: &'a A,
        }
        self.request(
            "tools/call",
            &Params {
                name: tool,
                arguments,
            },
        )
        .await
    }

    pub(crate) fn close(&self) {
        self.outbound.close();
    }

    async fn request(&self, method: &str, params: &impl Serialize) -> Fallible<Bytes> {
        #[derive(Serialize)]
        struct Request<'a, P> {
            jsonrpc: &'a str,
            id: u64,
            method: &'a str,
            params: &'a P,
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line = serde_json::to_vec(&Request {
            jsonrpc: "2.0",
            id,
            method,
            params,
        })?;
        let (sender, answer) = oneshot::channel();
        self.pending.lock().insert(id, sender);
        let frame = Frame::new(line.into(), Purpose::Request { id });
        timeout(TIMEOUT, async {
            self.outbound.send(frame).await?;
            Ok(answer.await?)
        })
        .await?
    }
}

impl BarePending {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Bytes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbound for BarePending {
    fn message(&self, message: Bytes) {
        #[derive(Deserialize)]
        struct Response<'a> {
            id: u64,
            #[serde(borrow)]
            result: &'a RawValue,
        }
        let Ok(response) = serde_json::from_slice::<Response<'_>>(&message) else {
            return;
        };
        let waiting = self.lock().remove(&response.id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(message.slice_ref(response.result.get().as_bytes()));
        }
    }

    fn oversized(&self, _: Oversized<'_>) {}

    fn failed(&self, request: u64, _: SendFailure) {
        self.lock().remove(&request);
    }

    fn retired(&self, _: End) {}

    fn ended(&self, _: End) {
        self.lock().clear();
    }
}
