//! What a server writes to stderr: the lines that are kept, or a stream that goes on.

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use hyper::Response;
use hyper::header::HeaderMap;
use mainstay::process::{Followed, StderrFollower, StderrLine};
use mainstay_gateway::MountBody;
use tokio::time::timeout;

use super::ControlService;
use super::answer::{json_answer, stream_answer};
use super::request::Query;
use super::stream::{HEARTBEAT, HEARTBEAT_INTERVAL, Pieces, STREAM_START, lagged, write_event};
use crate::api::{ApiProblem, LagMarker, LagReason, StderrPage};
use crate::control::Named;
use crate::status::stderr_record;

/// Lines in an answer by default: as many as are kept.
const DEFAULT_LINES: u64 = 200;

impl ControlService {
    pub(super) fn stderr(
        &self,
        named: &Named,
        headers: &HeaderMap,
        query: &Query<'_>,
    ) -> Result<Response<MountBody>, ApiProblem> {
        let lines = query.number("lines")?.unwrap_or(DEFAULT_LINES);
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        if !query.flag("follow")?.unwrap_or(false) {
            let tail = named.server.stderr_tail(lines);
            return Ok(json_answer(&StderrPage {
                server: named.name.to_string(),
                lines: tail.into_iter().map(stderr_record).collect(),
            }));
        }
        // Before the look at the lines that are kept, so that none is missed between.
        let follower = named.server.follow_stderr_lines();
        let tail = named.server.stderr_tail(lines);
        let mut first = BytesMut::from(STREAM_START);
        tail.iter().for_each(|line| write_line(&mut first, line.clone()));
        let pieces = StderrPieces {
            first: Some(first.freeze()),
            follower,
            seen: tail.into_iter().collect(),
        };
        Ok(stream_answer(self.stream(pieces, headers)?))
    }
}

/// The pieces of a stderr stream.
struct StderrPieces {
    first: Option<Bytes>,
    follower: StderrFollower<StderrLine>,
    /// The lines of the first piece. The follower may bring the last of them again.
    seen: HashSet<StderrLine>,
}

impl Pieces for StderrPieces {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let Ok(followed) = timeout(HEARTBEAT_INTERVAL, self.follower.next()).await else {
                return Some(HEARTBEAT);
            };
            match followed? {
                Followed::Missed(lost) => {
                    let reason = LagReason::Lagged;
                    return Some(lagged(&LagMarker {
                        lost: Some(lost),
                        reason,
                    }));
                }
                Followed::Wrote(line) if self.seen.remove(&line) => {}
                Followed::Wrote(line) => {
                    self.seen = HashSet::new();
                    let mut out = BytesMut::new();
                    write_line(&mut out, line);
                    return Some(out.freeze());
                }
            }
        }
    }
}

fn write_line(out: &mut BytesMut, line: StderrLine) {
    let json = serde_json::to_vec(&stderr_record(line)).unwrap_or_default();
    write_event(out, "line", None, &json);
}
