use super::*;

fn line(text: &str) -> Bytes {
    Bytes::from(text.to_owned())
}

fn raw(text: &str) -> RawJson {
    RawJson::from_text(text).unwrap()
}

#[track_caller]
fn check(text: &str, expected: &Message<'_>) {
    assert_eq!(&Message::read(&line(text)), expected, "{text}");
}

fn notification(method: &str, params: Option<&str>) -> Message<'static> {
    Message::Notification {
        method: Cow::Owned(method.into()),
        params: params.map(raw),
    }
}

fn response(id: &str, result: &str) -> Message<'static> {
    Message::Response {
        id: raw(id),
        result: Ok(raw(result)),
    }
}

#[test]
fn each_kind_of_message_is_told_apart() {
    check(
        r#"{"jsonrpc":"2.0","id":"a-1","method":"ping","params":{"x": 1.0}}"#,
        &Message::Request {
            id: raw("\"a-1\""),
            method: "ping".into(),
            params: Some(raw(r#"{"x": 1.0}"#)),
        },
    );
    check(
        r#" {"method":"n/x","jsonrpc":"2.0"} "#,
        &notification("n/x", None),
    );
    check(
        r#"{"jsonrpc":"2.0","id":3,"result":{ "a":[ ]}}"#,
        &response("3", r#"{ "a":[ ]}"#),
    );
    check(
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"m"}}"#,
        &Message::Response {
            id: raw("3"),
            result: Err(RpcError::new(-1, "m")),
        },
    );
}

#[test]
fn sloppy_messages_are_understood() {
    check(
        r#"{"id":null,"method":"n","params":null}"#,
        &notification("n", None),
    );
    check(r#"{"method":"a\/b"}"#, &notification("a/b", None));
    check(r#"{"id":3,"result":null,"error":null}"#, &response("3", "null"));
    check(r#"{"id":3,"method":null,"result":{}}"#, &response("3", "{}"));
    check(r#"{"id":3,"method":"m","result":{}}"#, &response("3", "{}"));
    check(
        r#"{"jsonrpc":"1.0","id":3,"result":1,"extra":{"deep":[]}}"#,
        &response("3", "1"),
    );
    check(r#"{"result":{}}"#, &response("null", "{}"));
    check(
        r#"{"id":3,"method":"m","result":null,"error":null}"#,
        &Message::Request {
            id: raw("3"),
            method: "m".into(),
            params: None,
        },
    );
}

#[test]
fn what_is_no_message_is_garbage() {
    let deep = "[".repeat(100_000);
    for text in [
        "Server running on stdio",
        "",
        "{",
        "{}",
        "3",
        "\"text\"",
        r#"{"id":3}"#,
        r#"{"id":3,"method":7}"#,
        r#"{"id":{"a":1},"method":"m"}"#,
        r#"{"id":3,"result":{}} {"id":4,"result":{}}"#,
        r#"{"id":3,"id":4,"result":{}}"#,
        r#"[[{"id":3,"result":{}}]]"#,
        r#"[{"id":3,"result":{}}"#,
        r#"[{"id":3,"result":{}}] x"#,
        &deep,
    ] {
        check(text, &Message::Garbage(BadAnswer::Malformed));
    }
    let bytes = Bytes::from_static(b"{\"id\":3,\"result\":\"\xff\"}");
    assert_eq!(Message::read(&bytes), Message::Garbage(BadAnswer::InvalidUtf8));
}

#[test]
fn a_deeply_nested_payload_is_carried_without_recursion() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let message = line(&format!(r#"{{"id":1,"result":{deep}}}"#));
    let Message::Response {
        result: Ok(result), ..
    } = Message::read(&message)
    else {
        panic!("an answer");
    };
    assert_eq!(result.as_str(), deep);
}

#[test]
fn payloads_share_the_memory_of_their_message() {
    let message = line(r#"{"jsonrpc":"2.0","id":1,"result":{"x":1}}"#);
    let Message::Response {
        result: Ok(result), ..
    } = Message::read(&message)
    else {
        panic!("an answer");
    };
    assert!(message.as_ptr_range().contains(&result.as_bytes().as_ptr()));
}

#[test]
fn a_batch_is_taken_apart_up_to_its_bound() {
    let batch = |n: usize| format!("[{}]", vec![r#"{"method":"n"}"#; n].join(", "));
    let message = line(&batch(BATCH_LIMIT));
    let Message::Batch(elements) = Message::read(&message) else {
        panic!("a batch");
    };
    assert_eq!(elements.len(), BATCH_LIMIT);
    assert!(elements.iter().all(|element| **element == *br#"{"method":"n"}"#));
    check(&batch(BATCH_LIMIT + 1), &Message::Garbage(BadAnswer::Malformed));
}

#[test]
fn what_is_no_message_in_a_batch_is_told_apart_from_the_others() {
    let message = line(r#"[1, {"method":"n"}, "x", {}]"#);
    let Message::Batch(elements) = Message::read(&message) else {
        panic!("a batch");
    };
    let are_messages: Vec<_> = elements
        .iter()
        .map(|element| !matches!(Message::read(element), Message::Garbage(_)))
        .collect();
    assert_eq!(are_messages, [false, true, false, false]);
}

#[test]
fn our_numbers_are_known_as_numbers_and_as_strings() {
    for (id, number) in [
        ("17", Some(17)),
        ("\"17\"", Some(17)),
        ("\"\"", None),
        ("-1", None),
        ("1.5", None),
        ("1.0", Some(1)),
        ("17.000", Some(17)),
        ("\"1.\"", None),
        ("\"1.0.0\"", None),
        ("\".0\"", None),
        ("\"x\"", None),
        ("null", None),
        ("99999999999999999999999", None),
    ] {
        assert_eq!(our_number(&raw(id)), number, "{id}");
    }
}

#[tokio::test]
async fn only_a_large_message_is_read_on_another_thread_and_both_are_read_alike() {
    let of_length = |length: usize| {
        let empty = r#"{"method":"n","params":[""]}"#.len();
        line(&format!(
            r#"{{"method":"n","params":["{}"]}}"#,
            "x".repeat(length - empty)
        ))
    };
    for (length, is_inline) in [(large::INLINE_LIMIT, true), (large::INLINE_LIMIT + 1, false)] {
        let message = of_length(length);
        assert_eq!(message.len(), length);
        let mut reading = std::pin::pin!(Message::read_any(&message));
        let first =
            std::future::poll_fn(|context| std::task::Poll::Ready(reading.as_mut().poll(context))).await;
        assert_eq!(first.is_ready(), is_inline, "{length}");
        let read = match first {
            std::task::Poll::Ready(read) => read,
            std::task::Poll::Pending => reading.await,
        };
        assert_eq!(read, Message::read(&message));
    }
}
