//! Sends spans to the receiver, in batches, from a task of its own. A receiver that is down or hangs costs spans and one line in the log,
//! and delays no call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay::gateway::PlainText;
use mainstay::transport::HttpOptions;
use mainstay::transport::http::{FetchRequest, fetch};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::OtlpSettings;
use super::protobuf::export_request;
use super::span::SpanRecord;

/// Spans that wait to be sent. More are dropped and counted.
const QUEUE_LIMIT: usize = 4096;
/// Spans of one request.
const BATCH_LIMIT: usize = 512;
/// How long the first span of a batch waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// How often a batch is sent before it is dropped.
const ATTEMPTS: u32 = 3;
/// The longest pause between two attempts, whatever the receiver asks for.
const PAUSE_LIMIT: Duration = Duration::from_secs(10);

/// Takes spans, without waiting.
#[derive(Clone)]
pub(super) struct SpanQueue {
    spans: Sender<SpanRecord>,
    state: Arc<QueueState>,
}

#[derive(Default)]
struct QueueState {
    dropped: AtomicU64,
    /// Wakes an exporter that waits for its batch to fill.
    flush: Notify,
}

/// The other end of a queue.
pub(super) struct QueuedSpans {
    spans: Receiver<SpanRecord>,
    state: Arc<QueueState>,
}

/// An empty queue.
pub(super) fn queue() -> (SpanQueue, QueuedSpans) {
    let (sender, receiver) = mpsc::channel(QUEUE_LIMIT);
    let state = Arc::<QueueState>::default();
    let queue = SpanQueue {
        spans: sender,
        state: state.clone(),
    };
    (
        queue,
        QueuedSpans {
            spans: receiver,
            state,
        },
    )
}

impl SpanQueue {
    pub(super) fn push(&self, span: SpanRecord) {
        if self.spans.try_send(span).is_err() {
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends an exporter when it is asked to.
pub(super) struct ExporterHandle {
    flush: Arc<QueueState>,
    ended: oneshot::Receiver<()>,
}

impl ExporterHandle {
    /// Sends what is queued, within this time.
    ///
    /// Cancel safety: dropped, some spans may not be sent.
    pub(super) async fn finish(self, within: Duration) {
        self.flush.flush.notify_one();
        let _sent_or_not = tokio::time::timeout(within, self.ended).await;
    }
}

/// Starts to send what is queued.
pub(super) fn start(settings: OtlpSettings, queued: QueuedSpans) -> ExporterHandle {
    let (ending, ended) = oneshot::channel();
    let flush = queued.state.clone();
    let exporter = Exporter {
        settings,
        queued,
        has_failed: false,
        lost: 0,
    };
    tokio::spawn(async move {
        exporter.run().await;
        drop(ending);
    });
    ExporterHandle { flush, ended }
}

struct Exporter {
    settings: OtlpSettings,
    queued: QueuedSpans,
    /// Whether the log says already that the receiver cannot be reached.
    has_failed: bool,
    /// Spans that were lost since the last success.
    lost: u64,
}

impl Exporter {
    async fn run(mut self) {
        loop {
            let (batch, is_last) = self.next_batch().await;
            if !batch.is_empty() {
                self.send(&batch, is_last).await;
            }
            if is_last {
                return;
            }
        }
    }

    /// The next spans, and whether they are the last ones.
    async fn next_batch(&mut self) -> (Vec<SpanRecord>, bool) {
        let QueuedSpans { spans, state } = &mut self.queued;
        let mut batch = Vec::new();
        let mut deadline = None;
        loop {
            let next = async {
                match deadline {
                    None => Ok(spans.recv().await),
                    Some(deadline) => timeout_at(deadline, spans.recv()).await,
                }
            };
            tokio::select! {
                biased;
                next = next => match next {
                    Ok(Some(span)) => {
                        deadline.get_or_insert_with(|| Instant::now() + BATCH_DELAY);
                        batch.push(span);
                        if batch.len() >= BATCH_LIMIT {
                            return (batch, false);
                        }
                    }
                    Ok(None) => return (batch, true),
                    Err(_elapsed) => return (batch, false),
                },
                () = state.flush.notified() => {
                    while let Ok(span) = spans.try_recv() {
                        batch.push(span);
                    }
                    return (batch, true);
                }
            }
        }
    }

    async fn send(&mut self, batch: &[SpanRecord], is_last: bool) {
        let body = export_request(&self.settings.resource, env!("CARGO_PKG_VERSION"), batch);
        let request = FetchRequest {
            url: self.settings.url.clone(),
            headers: self.settings.headers.clone(),
            body: Some(body.into()),
        };
        let mut pause = Duration::from_secs(1);
        for attempt in 1..=ATTEMPTS {
            let (why, is_worth_another) = match fetch(request.clone(), HttpOptions::default()).await {
                Ok(answer) if (200..300).contains(&answer.status) => return self.succeeded(),
                Ok(answer) => {
                    pause = answer.retry_after.unwrap_or(pause);
                    let is_worth = matches!(answer.status, 429 | 502 | 503 | 504);
                    (format!("it answers with status {}", answer.status), is_worth)
                }
                Err(error) => (error.to_string(), true),
            };
            self.failed(&why);
            if !is_worth_another || attempt == ATTEMPTS || is_last {
                break;
            }
            sleep(pause.min(PAUSE_LIMIT)).await;
            pause *= 2;
        }
        self.lost += batch.len() as u64;
    }

    fn succeeded(&mut self) {
        self.lost += self.queued.state.dropped.swap(0, Ordering::Relaxed);
        if std::mem::take(&mut self.has_failed) || self.lost > 0 {
            tracing::warn!(lost_spans = self.lost, "traces are exported again");
        }
        self.lost = 0;
    }

    /// Says once that the receiver cannot be reached.
    fn failed(&mut self, why: &str) {
        if !std::mem::replace(&mut self.has_failed, true) {
            let url = PlainText::line(self.settings.shown_url());
            tracing::warn!(receiver = %url, error = %PlainText::line(why), "traces cannot be exported; calls go on");
        }
    }
}
