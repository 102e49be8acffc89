use mainstay::gateway::message::RawJson;
use tokio::io::AsyncReadExt;

use super::*;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"experimental":{"x":1.0}},"clientInfo":{"name":"c","x-more":"\u0031"}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"m"}}}}"#;
const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}}"#;
const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn raw(text: &str) -> RawJson {
    RawJson::from_text(text).unwrap()
}

#[tokio::test]
async fn a_client_is_known_by_the_first_thing_that_it_asks_and_nothing_of_it_is_lost() {
    let legacy = Introduction::new(raw(r#"{"experimental":{"x":1.0}}"#))
        .client_info(raw(r#"{"name":"c","x-more":"\u0031"}"#))
        .protocol_version("2025-03-26");
    let modern = Introduction::new(raw(r#"{"roots":{}}"#)).client_info(raw(r#"{"name":"m"}"#));
    for (lines, known) in [
        (vec![INITIALIZE], Some(&legacy)),
        (vec![MODERN], Some(&modern)),
        (vec!["", NOTIFICATION, INITIALIZE, MODERN], Some(&legacy)),
        (vec![PING, INITIALIZE], None),
        (vec!["{", INITIALIZE], None),
        (vec![UNKNOWN, INITIALIZE], None),
    ] {
        let said = format!("{}\n", lines.join("\r\n"));
        let mut arrival = Arrival::wait(said.as_bytes()).await.expect("it asks");
        assert_eq!(arrival.introduction(), known, "{said}");
        let mut read = String::new();
        arrival.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, said);
    }
}

#[tokio::test]
async fn a_client_that_leaves_without_a_question_has_not_arrived() {
    for said in ["", "\n", NOTIFICATION, &format!("{NOTIFICATION}\n"), PING] {
        assert!(Arrival::wait(said.as_bytes()).await.is_none(), "{said}");
    }
}

#[tokio::test]
async fn a_line_without_an_end_is_not_heard_for_ever() {
    let endless = tokio::io::repeat(b'x');
    let arrival = Arrival::hear(endless, 3 * PIECE).await.expect("it is let in");
    assert!(arrival.introduction().is_none());
    assert!(arrival.heard.len() <= 4 * PIECE);
}
