use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use super::{BYTES_LIMIT, FIRST_LINES_LIMIT, Followed, LINE_BYTES_LIMIT, LINES_LIMIT, StderrRing, drain};
use crate::turn::Turn;
use crate::turn::tests::{TURNS_IN_A_ROW, most_in_between};

/// Lets a ring read `bytes`, as if generation `generation` had written them and ended.
async fn read_into(ring: &Arc<StderrRing>, generation: u64, bytes: impl Into<Vec<u8>>) {
    let (mut writer, reader) = tokio::io::duplex(1024);
    let drain = drain(reader, generation, Arc::clone(ring), Arc::default());
    writer.write_all(&bytes.into()).await.unwrap();
    drop(writer);
    drain.ended().await;
}

fn texts(lines: &[super::StderrLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[tokio::test]
async fn each_line_has_the_number_of_its_generation() {
    let ring = Arc::new(StderrRing::default());
    read_into(&ring, 1, "first\nsecond\n").await;
    read_into(&ring, 2, "third\n").await;
    read_into(&ring, 1, "late\n").await;

    assert_eq!(texts(&ring.tail(3)), ["second", "third", "late"]);
    assert_eq!(ring.lines_of(1), ["first", "second", "late"]);
    assert_eq!(ring.lines_of(2), ["third"]);
    assert!(ring.lines_of(3).is_empty());
}

#[tokio::test]
async fn the_first_lines_of_the_newest_process_stay_within_the_bounds() {
    let ring = Arc::new(StderrRing::default());
    let long = "x".repeat(2 * LINE_BYTES_LIMIT);
    for generation in [1, 2] {
        let error = format!("Error: {generation}\n");
        read_into(
            &ring,
            generation,
            error + &format!("{long}\n").repeat(LINES_LIMIT),
        )
        .await;
        read_into(&ring, generation - 1, "late\n").await;
    }
    assert_eq!(ring.lines_of(2)[0], "Error: 2");
    assert!(!ring.lines_of(1).contains(&"Error: 1".to_owned()));
    let kept = ring.kept.lock();
    let all = kept.first.iter().chain(&kept.lines);
    let bytes: usize = all.map(|line| line.text.len()).sum();
    assert_eq!(bytes, kept.bytes);
    assert!(bytes <= BYTES_LIMIT);
    assert_eq!(kept.first.len(), FIRST_LINES_LIMIT);
}

#[tokio::test]
async fn a_last_line_without_an_end_is_kept() {
    let ring = Arc::new(StderrRing::default());
    read_into(&ring, 1, "starting\r\n\n  \n10%\r20%\rpanic: no more").await;
    assert_eq!(texts(&ring.tail(9)), ["starting", "10%", "20%", "panic: no more"]);
}

#[tokio::test]
async fn a_begun_line_is_kept_when_reading_is_given_up() {
    let ring = Arc::new(StderrRing::default());
    let (mut writer, reader) = tokio::io::duplex(64);
    let drain = drain(reader, 1, Arc::clone(&ring), Arc::default());
    writer.write_all(b"half a line").await.unwrap();
    while ring.last_activity().is_none() {
        tokio::task::yield_now().await;
    }
    drain.abort();
    drain.ended().await;
    assert_eq!(texts(&ring.tail(9)), ["half a line"]);
}

#[tokio::test]
async fn invalid_utf8_is_shown_as_such_and_harms_nothing() {
    let ring = Arc::new(StderrRing::default());
    read_into(&ring, 1, b"caf\xe9 \xff\nok\n").await;
    assert_eq!(texts(&ring.tail(9)), ["caf\u{fffd} \u{fffd}", "ok"]);
}

#[tokio::test]
async fn a_ring_stays_within_its_bounds() {
    let ring = Arc::new(StderrRing::default());
    read_into(&ring, 1, "short\n".repeat(3 * LINES_LIMIT)).await;
    assert_eq!(ring.tail(usize::MAX).len(), LINES_LIMIT);

    read_into(
        &ring,
        2,
        format!("{}\n", "x".repeat(2 * LINE_BYTES_LIMIT)).repeat(LINES_LIMIT),
    )
    .await;
    let kept = ring.tail(usize::MAX);
    assert!(kept.iter().map(|line| line.text.len()).sum::<usize>() <= BYTES_LIMIT);
    assert!(
        kept.iter()
            .all(|line| line.generation == 2 && line.text.len() <= LINE_BYTES_LIMIT + '…'.len_utf8())
    );
    assert!(kept.last().unwrap().text.ends_with("x…"), "a cut line says so");
}

#[tokio::test(start_paused = true)]
async fn a_single_byte_is_a_sign_of_life() {
    let ring = Arc::new(StderrRing::default());
    let (mut writer, reader) = tokio::io::duplex(64);
    let _drain = drain(reader, 1, Arc::clone(&ring), Arc::default());
    assert_eq!(ring.last_activity(), None);

    let mut before = None;
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(5)).await;
        writer.write_all(b".").await.unwrap();
        while ring.last_activity() == before {
            tokio::task::yield_now().await;
        }
        assert_eq!(ring.last_activity(), Some(tokio::time::Instant::now()));
        before = ring.last_activity();
    }
}

#[tokio::test]
async fn who_follows_is_given_what_is_written_byte_for_byte_and_the_lines_without_control_characters() {
    let ring = Arc::new(StderrRing::default());
    read_into(&ring, 1, "before\n").await;
    let (mut bytes, mut lines) = (ring.follow_bytes(), ring.follow_lines());
    let written: &[u8] = b"\x1b[31mred\x1b[0m \xff\r\nhalf";
    read_into(&ring, 1, written).await;
    read_into(&ring, 2, "again\n").await;

    let mut read = Vec::new();
    while read.len() < written.len() + "again\n".len() {
        match bytes.next().await {
            Some(Followed::Wrote(piece)) => read.extend_from_slice(&piece),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(read, [written, b"again\n"].concat());
    for expected in ["red \u{fffd}", "half", "again"] {
        match lines.next().await {
            Some(Followed::Wrote(line)) => assert_eq!(line.text, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_follower_that_does_not_read_blocks_nothing_and_learns_what_it_missed() {
    let ring = Arc::new(StderrRing::default());
    let mut lines = ring.follow_lines();
    let written = 10 * LINES_LIMIT;
    let flood: String = (0..written).map(|n| format!("line {n}\n")).collect();
    read_into(&ring, 1, flood).await;

    let Some(Followed::Missed(missed)) = lines.next().await else {
        panic!("nothing missed");
    };
    let Some(Followed::Wrote(line)) = lines.next().await else {
        panic!("nothing left");
    };
    assert_eq!(line.text, format!("line {missed}"));
    drop(ring);
    let mut left = 1;
    while lines.next().await.is_some() {
        left += 1;
    }
    assert_eq!(missed + left, written as u64);
}

#[tokio::test]
async fn a_server_that_never_stops_writing_to_stderr_starves_no_other_task() {
    let ring = Arc::new(StderrRing::default());
    let mut lines = ring.follow_lines();
    let count = Arc::new(AtomicU32::new(0));
    let total = 20_000;
    let pipe = io::Cursor::new("x\n".repeat(total));
    let counting = tokio::spawn({
        let count = count.clone();
        async move {
            while let Some(followed) = lines.next().await {
                let lines = match followed {
                    Followed::Wrote(_) => 1,
                    Followed::Missed(missed) => u32::try_from(missed).unwrap(),
                };
                count.fetch_add(lines, Ordering::Relaxed);
            }
        }
    });
    let drain = drain(pipe, 1, Arc::clone(&ring), Arc::default());
    let most = most_in_between(count, u32::try_from(total).unwrap()).await;
    assert!(most <= TURNS_IN_A_ROW * Turn::MESSAGES, "{most} lines at once");
    drain.ended().await;
    counting.abort();
}

/// A pipe with so many pieces of one endless line, each of which is there at once.
struct OneLine {
    pieces: u32,
    read: Arc<AtomicU32>,
}

impl OneLine {
    const PIECE: usize = 4096;
}

impl AsyncRead for OneLine {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.pieces > 0 {
            self.pieces -= 1;
            buffer.put_slice(&[b'x'; Self::PIECE]);
            self.read.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_server_that_never_ends_a_line_of_stderr_starves_no_other_task() {
    let pieces = 10_000;
    let read = Arc::new(AtomicU32::new(0));
    let pipe = OneLine {
        pieces,
        read: read.clone(),
    };
    let drain = drain(pipe, 1, Arc::default(), Arc::default());
    let most = most_in_between(read, pieces).await;
    let allowed = TURNS_IN_A_ROW as usize * (Turn::BYTES / OneLine::PIECE + 1);
    assert!(most as usize <= allowed, "{most} pieces at once");
    drain.ended().await;
}

#[tokio::test]
async fn what_was_read_is_kept_when_reading_is_aborted() {
    let ring = Arc::new(StderrRing::default());
    let lines = 5 * Turn::MESSAGES;
    let pipe = io::Cursor::new("x\n".repeat(lines as usize) + "the last");
    let drain = drain(pipe, 1, Arc::clone(&ring), Arc::default());
    while ring.tail(1).is_empty() {
        tokio::task::yield_now().await;
    }
    drain.abort();
    drain.ended().await;
    assert_eq!(texts(&ring.tail(1)), ["the last"]);
}
