//! From the faults of one request to how it will be answered.

use std::time::Duration;

use super::coding::Compression;
use super::fault::{BadStream, HttpFault, Redirect};
use super::script::AnswerForm;

/// How a request will be answered. The default is: properly.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) delay: Duration,
    pub(super) slow_head: Option<Duration>,
    pub(super) huge_header: Option<usize>,
    pub(super) content_type: Option<String>,
    pub(super) reply: Option<AnswerForm>,
    pub(super) compression: Option<Compression>,
    pub(super) byte_order_mark: bool,
    pub(super) drop_after: Option<usize>,
    pub(super) stop_after: Option<usize>,
    pub(super) drop_after_events: Option<usize>,
    pub(super) end_after_events: Option<usize>,
    pub(super) silent: bool,
    pub(super) bad_stream: Option<BadStream>,
    pub(super) swap: bool,
    pub(super) forget_session: bool,
    pub(super) instead: Option<Instead>,
}

/// What takes the place of the answer.
#[derive(Clone, Debug)]
pub(super) enum Instead {
    NoHead,
    Close,
    Reset,
    HugeBody(usize),
    BadFraming,
    InvalidUtf8,
    NotHttp,
    Status {
        code: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    Redirect {
        code: u16,
        to: Redirect,
    },
}

impl Instead {
    /// Whether the message is performed all the same: its answer is lost, not its effect.
    pub(super) fn performs(&self) -> bool {
        match self {
            Self::NoHead
            | Self::Close
            | Self::Reset
            | Self::HugeBody(_)
            | Self::BadFraming
            | Self::InvalidUtf8 => true,
            Self::NotHttp | Self::Status { .. } | Self::Redirect { .. } => false,
        }
    }
}

impl Plan {
    /// Plays the faults in order, until one takes the place of the answer.
    pub(super) fn of(faults: Vec<HttpFault>) -> Self {
        let mut plan = Self::default();
        for fault in faults {
            plan.add(fault);
            if plan.instead.is_some() {
                break;
            }
        }
        plan
    }

    /// The form of the answer, where the script says `usual`.
    pub(super) fn reply(&self, usual: AnswerForm) -> AnswerForm {
        match self.bad_stream {
            Some(_) => AnswerForm::Stream,
            None => self.reply.unwrap_or(usual),
        }
    }

    fn add(&mut self, fault: HttpFault) {
        match fault {
            HttpFault::Delay { ms } => self.delay += Duration::from_millis(ms),
            HttpFault::SlowHead { ms } => self.slow_head = Some(Duration::from_millis(ms)),
            HttpFault::HugeHeader(bytes) => self.huge_header = Some(bytes),
            HttpFault::ContentType(content_type) => self.content_type = Some(content_type),
            HttpFault::Reply(reply) => self.reply = Some(reply),
            HttpFault::ByteOrderMark => self.byte_order_mark = true,
            HttpFault::Compress(compression) => self.compression = Some(compression),
            HttpFault::CompressedBomb(bytes) => {
                self.compression = Some(Compression::Gzip);
                self.instead = Some(Instead::HugeBody(bytes));
            }
            HttpFault::DropAfter(bytes) => self.drop_after = Some(bytes),
            HttpFault::StopAfter(bytes) => self.stop_after = Some(bytes),
            HttpFault::DropAfterEvents(events) => self.drop_after_events = Some(events),
            HttpFault::EndAfterEvents(events) => self.end_after_events = Some(events),
            HttpFault::Silent => self.silent = true,
            HttpFault::Stream(bad) => self.bad_stream = Some(bad),
            HttpFault::SwapAnswers => self.swap = true,
            HttpFault::ForgetSession => self.forget_session = true,
            HttpFault::NoHead => self.instead = Some(Instead::NoHead),
            HttpFault::Close => self.instead = Some(Instead::Close),
            HttpFault::Reset => self.instead = Some(Instead::Reset),
            HttpFault::HugeBody(bytes) => self.instead = Some(Instead::HugeBody(bytes)),
            HttpFault::BadFraming => self.instead = Some(Instead::BadFraming),
            HttpFault::InvalidUtf8 => self.instead = Some(Instead::InvalidUtf8),
            HttpFault::NotHttp => self.instead = Some(Instead::NotHttp),
            HttpFault::Status { code, headers, body } => {
                self.instead = Some(Instead::Status { code, headers, body });
            }
            HttpFault::Redirect { code, to } => self.instead = Some(Instead::Redirect { code, to }),
        }
    }
}
