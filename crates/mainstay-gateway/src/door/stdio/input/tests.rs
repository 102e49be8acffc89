use std::sync::Arc;

use tokio::io::{AsyncWriteExt, duplex};

use super::*;
use crate::budget::{Budget, BudgetLimits};
use crate::door::endless::Endless;
use crate::principal::Principal;

/// A client that may hold so many bytes.
fn account(share: usize) -> (Arc<Budget>, Account) {
    let share = Some(share);
    let budget = Arc::new(Budget::new(BudgetLimits {
        all: usize::MAX,
        share,
    }));
    let account = budget.account(Principal::session(1));
    (budget, account)
}

/// Reads these pieces, each of which arrives by itself.
async fn read(pieces: &[&[u8]], limit: usize) -> Vec<String> {
    let (mut remote, near) = duplex(64);
    let writing = async {
        for piece in pieces {
            remote.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(remote);
    };
    let reading = async {
        let mut lines = LineReader::new(near, limit, account(usize::MAX).1);
        let mut read = Vec::new();
        loop {
            read.push(match lines.next().await {
                ReadLine::Line(line) => String::from_utf8_lossy(&line).trim_end().to_owned(),
                ReadLine::TooLong(skipped) => format!("too long: {}", skipped.length),
                ReadLine::End => return read,
            });
            assert!(
                lines.buffer.len() <= limit + READ_SIZE,
                "it is skipped as it arrives"
            );
        }
    };
    tokio::join!(writing, reading).1
}

#[tokio::test]
async fn lines_are_read_however_they_come_in_pieces_and_blank_ones_are_not() {
    let whole = [&b"one\n\n  \r\ntwo\r\nwithout an end"[..]];
    let pieces: Vec<&[u8]> = whole[0].chunks(1).collect();
    for pieces in [&whole[..], &pieces] {
        assert_eq!(read(pieces, 100).await, ["one", "two", "without an end"]);
    }
    assert_eq!(read(&[b"one\n  "], 100).await, ["one"]);
}

#[tokio::test]
async fn a_byte_order_mark_before_the_first_line_is_no_part_of_it() {
    const MARKED: &[u8] = b"\xef\xbb\xbf{}\n\xef\xbb\xbftwo";
    let pieces: Vec<&[u8]> = MARKED.chunks(1).collect();
    for pieces in [&[MARKED][..], &pieces] {
        assert_eq!(read(pieces, 100).await, ["{}", "\u{feff}two"]);
    }
    assert_eq!(read(&[b"\xef\xbb\xbf{}"], 100).await, ["{}"]);
}

/// An input that fails when this was read.
struct Failing(&'static [u8]);

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        buffer.put_slice(std::mem::take(&mut self.0));
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn an_unfinished_line_of_an_input_that_fails_is_dropped() {
    let mut lines = LineReader::new(Failing(b"one\n{\"half"), 100, account(usize::MAX).1);
    assert!(matches!(lines.next().await, ReadLine::Line(_)));
    assert!(matches!(lines.next().await, ReadLine::End));
    assert!(
        ClientInput::wait_for_request(Failing(PING.as_bytes()))
            .await
            .is_none()
    );
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped_and_the_next_is_read() {
    let long = vec![b'x'; 3 * READ_SIZE];
    assert_eq!(read(&[&long], 100).await, [format!("too long: {}", long.len())]);
    let skipped = format!("too long: {}", long.len() + 1);
    assert_eq!(read(&[&long, b"\nnext\n"], 100).await, [skipped.as_str(), "next"]);
}

#[tokio::test]
async fn the_ends_of_a_line_that_is_too_long_say_whose_request_it_is() {
    for (before, behind) in [
        (r#"{"id":"a","method":"m","params":{"x":""#, r#""}}"#),
        (r#"{"method":"m","params":{"x":""#, r#""},"id":"a"}"#),
    ] {
        let long = format!("{before}{}{behind}\n", "x".repeat(3 * READ_SIZE));
        let (mut remote, near) = duplex(64);
        let writing = async { remote.write_all(long.as_bytes()).await.unwrap() };
        let mut lines = LineReader::new(near, 100, account(usize::MAX).1);
        let ((), read) = tokio::join!(writing, lines.next());
        let ReadLine::TooLong(skipped) = read else {
            panic!("too long");
        };
        assert_eq!(skipped.length, long.len());
        assert!(skipped.head.len() <= END_LENGTH && skipped.tail.len() <= END_LENGTH);
        assert_eq!(skipped.request_id().unwrap().as_str(), r#""a""#);
    }
}

#[tokio::test]
async fn a_client_that_never_stops_writing_lets_other_tasks_run_between_its_turns() {
    let pieces = READ_SIZE as u32;
    for (piece, reads_in_a_turn) in [
        (b"{}\n".to_vec(), Turn::MESSAGES),
        // One read gives more blank lines than a turn has room for.
        (vec![b'\n'; READ_SIZE], 1),
        (vec![b'x'; READ_SIZE], Turn::BYTES as u32 / pieces),
    ] {
        let input = Endless::of(piece);
        let counting = input.most_reads_in_one_turn(300);
        let reading = tokio::spawn(async move {
            let mut lines = LineReader::new(input, 100, account(usize::MAX).1);
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

#[tokio::test]
async fn a_client_that_never_makes_a_request_lets_other_tasks_run_between_its_turns() {
    let input = Endless::of(format!("{NOTIFICATION}\n"));
    let counting = input.most_reads_in_one_turn(300);
    let waiting = tokio::spawn(ClientInput::wait_for_request(input));
    let most = counting.await;
    assert!(most <= 4 * Turn::MESSAGES, "{most} reads in a turn");
    waiting.abort();
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"experimental":{"x":1.0}},"clientInfo":{"name":"c","x-more":"\u0031"}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"m"}}}}"#;
const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}}"#;
const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn raw(text: &str) -> RawJson {
    RawJson::from_text(text).unwrap()
}

#[tokio::test]
async fn a_client_is_known_by_its_first_request_and_nothing_of_its_input_is_lost() {
    let legacy = Introduction::new(raw(r#"{"experimental":{"x":1.0}}"#))
        .client_info(raw(r#"{"name":"c","x-more":"\u0031"}"#))
        .protocol_version("2025-03-26");
    let modern = Introduction::new(raw(r#"{"roots":{}}"#))
        .client_info(raw(r#"{"name":"m"}"#))
        .protocol_version("2026-07-28");
    for (lines, known) in [
        (vec![INITIALIZE], Some(&legacy)),
        (vec![MODERN], Some(&modern)),
        (vec!["", NOTIFICATION, INITIALIZE, MODERN], Some(&legacy)),
        (vec![PING, INITIALIZE], None),
        (vec!["{", INITIALIZE], None),
        (vec![UNKNOWN, INITIALIZE], None),
    ] {
        let said = format!("{}\n", lines.join("\r\n"));
        let mut input = ClientInput::wait_for_request(said.as_bytes())
            .await
            .expect("a request");
        assert_eq!(input.introduction(), known, "{said}");
        let mut read = String::new();
        input.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, said);
    }
}

#[tokio::test]
async fn a_client_that_leaves_without_a_request_is_not_served() {
    for said in ["", "\n", NOTIFICATION, &format!("{NOTIFICATION}\n")] {
        assert!(
            ClientInput::wait_for_request(said.as_bytes()).await.is_none(),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_first_request_may_be_the_last_line_and_have_no_end() {
    for said in [INITIALIZE.to_owned(), format!("{NOTIFICATION}\n{INITIALIZE}")] {
        let mut input = ClientInput::wait_for_request(said.as_bytes())
            .await
            .expect("a request");
        assert!(input.introduction().is_some(), "{said}");
        let mut read = String::new();
        input.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, said);
    }
}

#[tokio::test]
async fn a_line_without_an_end_is_not_read_for_ever() {
    let endless = tokio::io::repeat(b'x');
    let input = ClientInput::wait_within(endless, 3 * READ_SIZE)
        .await
        .expect("it is served");
    assert!(input.introduction().is_none());
    assert!(input.buffer.len() <= 4 * READ_SIZE);
}

#[track_caller]
fn check(head: &str, tail: &str, expected: Option<&str>) {
    let found = request_id(head.as_bytes(), tail.as_bytes());
    let found = found.as_ref().map(RawJson::as_str);
    assert_eq!(found, expected, "{head} … {tail}");
}

#[test]
fn the_id_of_a_request_is_found_before_its_parameters_and_behind_them() {
    check(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"aa"#,
        "",
        Some("7"),
    );
    check(
        r#" { "id" : "a b" , "method":"m","params":{"id":8,"#,
        "",
        Some(r#""a b""#),
    );
    let head = r#"{"method":"tools/call","params":{"arguments":{"id":8,"x":"aaa"#;
    check(head, "aaa\"}},\"jsonrpc\":\"2.0\",\"id\":7}\n", Some("7"));
    check(
        head,
        r#"aaa"}}, "id": "seven", "jsonrpc": "2.0" }"#,
        Some(r#""seven""#),
    );
    check(
        r#"{"params":{"x":"aaa"#,
        r#"aaa"},"id":7,"method":"m"}"#,
        Some("7"),
    );
}

#[test]
fn what_may_be_no_request_or_another_id_has_none() {
    let head = r#"{"method":"m","params":{"x":"aaa"#;
    for (head, tail) in [
        // An answer, a notification, a batch, and no message at all.
        (r#"{"jsonrpc":"2.0","id":7,"result":{"x":"#, ""),
        (r#"{"result":{"method":"m","x":"aaa"#, r#"aaa"},"id":7}"#),
        (r#"{"jsonrpc":"2.0","method":"m","params":{"x":"#, r#"aaa"}}"#),
        (
            r#"[{"jsonrpc":"2.0","id":7,"method":"m","params":{"#,
            r#"},"id":7}"#,
        ),
        ("garbage", r#","method":"m","id":7}"#),
        (r#"{"id":7,"x":"aaa"#, r#"aaa"}"#),
        (r#"{"x":"aaa"#, r#"aaa","id":7}"#),
        // Both a request and an answer.
        (r#"{"id":7,"method":"m","result":{"x":"aaa"#, r#"aaa"}}"#),
        // An id that is not of the top level, that is cut off, or that is no id.
        (head, r#"{"id":8}}"#),
        (head, r#"{"id":8}],"x":[{"id":8}]}"#),
        (head, r#"aaa \"id\":8}"#),
        (r#"{"method":"m","id":12"#, ""),
        (r#"{"method":"m","id":{"a":1},"params":"#, ""),
    ] {
        check(head, tail, None);
    }
}

#[tokio::test]
async fn an_unfinished_line_is_charged_as_it_grows_and_skipped_where_there_is_no_room() {
    let (budget, account) = account(4 * CHARGED_LENGTH);
    let (mut remote, near) = duplex(1024);
    let mut lines = LineReader::new(near, usize::MAX, account);
    let half = vec![b' '; 2 * CHARGED_LENGTH];

    let mut reading = Box::pin(lines.next());
    let mut write = async |bytes: &[u8]| {
        tokio::select! {
            written = remote.write_all(bytes) => written.unwrap(),
            _ = reading.as_mut() => panic!("no line has ended"),
        }
    };
    write(br#"{"id":7,"method":"m"#).await;
    write(&half).await;
    // What the other end has yet to read does not count.
    assert!(budget.held() > half.len() - 1024, "{}", budget.held());
    write(&half).await;
    write(&half).await;
    assert_eq!(budget.held(), 0, "what is skipped is given back");
    let (written, read) = tokio::join!(remote.write_all(b"\"}\nnext\n"), reading);
    written.unwrap();
    let ReadLine::TooLong(skipped) = read else {
        panic!("it was skipped");
    };
    assert_eq!(
        skipped.spent,
        Some(Spent::Share {
            share: 4 * CHARGED_LENGTH
        })
    );
    assert_eq!(skipped.length, 3 * half.len() + 22);
    assert_eq!(skipped.request_id().unwrap().as_str(), "7");
    assert!(matches!(lines.next().await, ReadLine::Line(line) if line == "next\n"));
    assert_eq!(budget.held(), 0);
}
