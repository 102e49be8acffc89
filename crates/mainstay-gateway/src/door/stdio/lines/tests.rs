use tokio::io::{AsyncWriteExt, duplex};

use super::*;
use crate::door::endless::Endless;

/// What is read of these pieces, each of which comes by itself.
async fn read(pieces: &[&[u8]], longest: usize) -> Vec<String> {
    let (mut far, near) = duplex(64);
    let writing = async {
        for piece in pieces {
            far.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(far);
    };
    let reading = async {
        let mut lines = Lines::new(near, longest);
        let mut read = Vec::new();
        loop {
            read.push(match lines.next().await {
                Read::Outbox(line) => String::from_utf8_lossy(&line).trim_end().to_owned(),
                Read::TooLong(length) => format!("too long: {length}"),
                Read::End => return read,
            });
            assert!(lines.read.len() <= longest + PIECE, "it is skipped as it comes");
        }
    };
    tokio::join!(writing, reading).1
}

#[tokio::test]
async fn lines_are_read_however_they_come_in_pieces_and_blank_ones_are_not() {
    let whole = [&b"one\n\n  \r\ntwo\r\nunfinished"[..]];
    let pieces: Vec<&[u8]> = whole[0].chunks(1).collect();
    for pieces in [&whole[..], &pieces] {
        assert_eq!(read(pieces, 100).await, ["one", "two"]);
    }
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped_and_the_next_is_read() {
    let long = vec![b'x'; 3 * PIECE];
    let told = format!("too long: {}", long.len() + 1);
    assert_eq!(read(&[&long, b"\nnext\n"], 100).await, [told.as_str(), "next"]);
}

#[tokio::test]
async fn a_client_that_never_stops_writing_lets_other_tasks_run_between_its_turns() {
    let pieces = PIECE as u32;
    for (piece, reads_in_a_turn) in [
        (b"{}\n".to_vec(), Turn::MESSAGES),
        (vec![b'\n'; PIECE], Turn::BYTES as u32 / pieces),
        (vec![b'x'; PIECE], Turn::BYTES as u32 / pieces),
    ] {
        let input = Endless::of(piece);
        let counting = input.most_reads_in_one_turn(300);
        let reading = tokio::spawn(async move {
            let mut lines = Lines::new(input, 100);
            loop {
                lines.next().await;
            }
        });
        let most = counting.await;
        // The runtime may run a task twice before another.
        assert!(
            most <= 4 * reads_in_a_turn,
            "{most} reads in a turn of {reads_in_a_turn}"
        );
        reading.abort();
    }
}
