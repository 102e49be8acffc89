use std::sync::Arc;

use bytes::Bytes;
use mainstay_lifecycle::Generation;

use super::*;
use crate::ServerConfig;
use crate::redaction::Redaction;
use crate::wire::Message;

const FIRST: Generation = Generation(7);
const SECOND: Generation = Generation(8);

fn recorder(options: RecorderOptions) -> Arc<FlightRecorder> {
    Arc::new(FlightRecorder::new(options))
}

fn receive(connection: &ConnectionRecorder, line: &str) {
    let bytes = Bytes::from(line.to_owned());
    connection.received(&Message::read(&bytes), &bytes);
}

fn call(connection: &ConnectionRecorder, id: u64, line: &str) {
    let head = MessageHead::Request {
        id,
        method: "tools/call",
        name: Some("echo"),
    };
    connection.sent(head, line.as_bytes());
}

fn read(recorder: &FlightRecorder) -> Recording {
    recorder.read(&Redaction::default())
}

#[test]
fn heads_say_what_went_which_way_and_hold_no_payload() {
    let recorder = recorder(RecorderOptions::heads());
    let connection = ConnectionRecorder::new(&recorder, FIRST);
    call(&connection, 5, r#"{"id":5,"method":"tools/call"}"#);
    receive(&connection, r#"{"id":5,"result":{"secret":1}}"#);
    receive(&connection, r#"{"id":"s-1","method":"roots/list"}"#);
    let head = MessageHead::Answer {
        id: "\"s-1\"",
        error_code: Some(-32601),
    };
    connection.sent(head, b"{}");
    receive(&connection, r#"{"id":6,"error":{"code":-5,"message":"no"}}"#);
    connection.failed(9);
    let recording = read(&recorder);
    assert!(!recording.has_payloads);
    let shown: Vec<_> = recording
        .messages
        .iter()
        .map(|message| {
            let code = message.error_code.map(|code| code.to_string());
            let words = [
                Some(message.direction.as_str().to_owned()),
                Some(message.kind.as_str().to_owned()),
                message.method.clone(),
                message.name.clone(),
                message.id.clone(),
                code,
            ];
            words.into_iter().flatten().collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "to_server request tools/call echo 5",
            "from_server result 5",
            "from_server request roots/list \"s-1\"",
            "to_server error \"s-1\" -32601",
            "from_server error 6 -5",
            "from_server failed 9",
        ]
    );
    assert!(recording.messages.iter().all(|message| message.payload.is_none()));
    assert_eq!(recording.messages[1].bytes, 30);
}

#[test]
fn the_oldest_messages_make_room_and_are_counted() {
    let recorder = recorder(RecorderOptions::heads().messages(3));
    let connection = ConnectionRecorder::new(&recorder, FIRST);
    (0..10).for_each(|id| call(&connection, id, "{}"));
    let recording = read(&recorder);
    let ids: Vec<_> = recording
        .messages
        .iter()
        .filter_map(|message| message.id.as_deref())
        .collect();
    assert_eq!(ids, ["7", "8", "9"]);
    assert_eq!(recording.dropped, 7);
}

#[test]
fn payloads_are_bounded_in_bytes_and_one_alone_cannot_fill_the_ring() {
    let recorder = recorder(RecorderOptions::payloads().payload_bytes(400));
    let connection = ConnectionRecorder::new(&recorder, FIRST);
    call(&connection, 1, &"x".repeat(101));
    (2..12).for_each(|id| call(&connection, id, &"y".repeat(90)));
    let recording = read(&recorder);
    let held: usize = recording
        .messages
        .iter()
        .filter_map(|message| Some(message.payload.as_ref()?.len()))
        .sum();
    assert_eq!(held, 360);
    call(&connection, 13, &"z".repeat(101));
    let last = read(&recorder).messages.pop().expect("just recorded");
    assert_eq!((last.bytes, last.payload), (101, None));
}

#[test]
fn known_secrets_are_replaced_in_payloads_escaped_or_not() {
    let recorder = recorder(RecorderOptions::payloads());
    let connection = ConnectionRecorder::new(&recorder, FIRST);
    receive(&connection, r#"{"id":1,"result":["sk-12345","pass\"word\\1"]}"#);
    let server = ServerConfig::stdio("s", "x")
        .env("TOKEN", "sk-12345")
        .env("PASSWORD", "pass\"word\\1")
        .build()
        .expect("valid");
    let recording = recorder.read(&Redaction::of(&server));
    let payload = recording.messages[0].payload.as_deref();
    assert_eq!(payload, Some(r#"{"id":1,"result":["[TOKEN]","[PASSWORD]"]}"#));
}

#[test]
fn what_a_lost_connection_said_last_stays_while_newer_messages_come() {
    let recorder = recorder(RecorderOptions::heads());
    let first = ConnectionRecorder::new(&recorder, FIRST);
    let second = ConnectionRecorder::new(&recorder, SECOND);
    (0..100).for_each(|id| call(&first, id, "{}"));
    call(&second, 1000, "{}");
    recorder.set_aside(FIRST, "the process ended");
    recorder.set_aside(FIRST, "said again");
    (0..1000).for_each(|id| call(&second, id, "{}"));
    let recording = read(&recorder);
    assert!(
        recording
            .messages
            .iter()
            .all(|message| message.generation == SECOND)
    );
    let [loss] = &recording.losses[..] else {
        panic!("one loss, not {}", recording.losses.len())
    };
    assert_eq!(
        (loss.generation, loss.reason.as_str()),
        (FIRST, "the process ended")
    );
    assert_eq!(loss.messages.len(), 64);
    assert_eq!(
        loss.messages.last().and_then(|message| message.id.as_deref()),
        Some("99")
    );
}

#[test]
fn a_connection_that_fails_again_later_is_set_aside_as_it_is_then() {
    let recorder = recorder(RecorderOptions::heads());
    let connection = ConnectionRecorder::new(&recorder, FIRST);
    call(&connection, 1, "{}");
    recorder.set_aside(FIRST, "a listing failed");
    call(&connection, 2, "{}");
    recorder.set_aside(FIRST, "the process ended");
    let losses = read(&recorder).losses;
    assert_eq!(losses.len(), 1);
    assert_eq!(
        (losses[0].reason.as_str(), losses[0].messages.len()),
        ("the process ended", 2)
    );
}

#[test]
fn losses_are_bounded_in_number_in_messages_and_in_payloads() {
    let heads = recorder(RecorderOptions::heads());
    for generation in 0..100 {
        heads.set_aside(Generation(generation), "no answer");
    }
    let losses = read(&heads).losses;
    assert_eq!(losses.len(), 32);
    assert_eq!(losses.last().map(|loss| loss.generation), Some(Generation(99)));

    let whole = recorder(RecorderOptions::payloads());
    for generation in 0..32 {
        let connection = ConnectionRecorder::new(&whole, Generation(generation));
        (0..64).for_each(|id| call(&connection, id, &"x".repeat(10_000)));
        whole.set_aside(Generation(generation), "lost");
    }
    let losses = read(&whole).losses;
    assert_eq!(losses.len(), 8, "512 messages are kept");
    let held = |loss: &RecordedLoss| -> usize {
        loss.messages
            .iter()
            .filter_map(|message| Some(message.payload.as_ref()?.len()))
            .sum()
    };
    let all: usize = losses.iter().map(held).sum();
    assert!((1_000_000..=1_048_576).contains(&all), "{all} bytes");
    assert_eq!(losses.last().map(held), Some(640_000), "the latest loss is whole");
}

#[test]
fn a_flood_of_text_is_one_message() {
    let recorder = recorder(RecorderOptions::heads());
    let connection = ConnectionRecorder::new(&recorder, FIRST);
    call(&connection, 1, "{}");
    (0..5000).for_each(|_| receive(&connection, "y"));
    connection.skipped(70_000_000);
    let messages = read(&recorder).messages;
    assert_eq!(messages.len(), 2);
    assert_eq!(
        (messages[1].kind, messages[1].count),
        (RecordedKind::Unreadable, 5001)
    );
    assert_eq!(messages[1].bytes, 70_005_000);
}

#[test]
fn long_and_hostile_names_are_cut_and_plain() {
    let recorder = recorder(RecorderOptions::heads());
    let connection = ConnectionRecorder::new(&recorder, FIRST);
    let method = format!("{}é", "x".repeat(39));
    receive(&connection, &format!(r#"{{"method":"{method}"}}"#));
    receive(
        &connection,
        &format!(r#"{{"id":"{}","method":"\u001b[2J"}}"#, "9".repeat(200)),
    );
    let messages = read(&recorder).messages;
    assert_eq!(
        messages[0].method.as_deref(),
        Some(&*format!("{}…", "x".repeat(39)))
    );
    let hostile = messages[1].method.as_deref().expect("it has one");
    assert!(!hostile.contains('\u{1b}'), "{hostile:?}");
    assert_eq!(messages[1].id.as_ref().map(|id| id.chars().count()), Some(25));
}

#[test]
fn a_recorder_that_is_off_keeps_nothing() {
    let recorder = recorder(RecorderOptions::off());
    let connection = ConnectionRecorder::new(&recorder, FIRST);
    call(&connection, 1, "{}");
    recorder.set_aside(FIRST, "lost");
    let recording = read(&recorder);
    assert!(recording.messages.is_empty() && recording.losses.is_empty());
}
