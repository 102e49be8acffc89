use super::*;

fn read(name: &str, arguments: &Value) -> Result<DemoCall, DemoError> {
    let Value::Object(params) = json!({ "name": name, "arguments": arguments }) else {
        unreachable!()
    };
    DemoCall::read(&params)
}

#[test]
fn every_listed_tool_can_be_called_with_what_its_schema_requires() {
    let listed = definitions();
    let tools = listed.as_array().expect("an array");
    assert_eq!(tools.len(), 8);
    for tool in tools {
        let mut arguments = json!({});
        for name in tool["inputSchema"]["required"].as_array().expect("required") {
            let kind = &tool["inputSchema"]["properties"][name.as_str().unwrap()]["type"];
            arguments[name.as_str().unwrap()] = if kind == "string" { json!("x") } else { json!(1) };
        }
        read(tool["name"].as_str().unwrap(), &arguments).expect("a call");
    }
}

#[test]
fn arguments_out_of_range_or_of_the_wrong_type_are_refused() {
    for (name, arguments) in [
        ("echo", json!({})),
        ("echo", json!({ "text": 7 })),
        ("echo", json!([])),
        ("add", json!({ "a": 1 })),
        ("sleep", json!({ "seconds": -1 })),
        ("sleep", json!({ "seconds": 3601 })),
        ("count", json!({ "to": 0 })),
        ("count", json!({ "to": 1001 })),
        ("count", json!({ "to": 2, "interval_ms": 1.5 })),
        ("log", json!({ "message": "m", "level": "loud" })),
        ("crash", json!({ "code": 256 })),
        ("none", json!({})),
    ] {
        assert!(read(name, &arguments).is_err(), "{name} {arguments}");
    }
}

#[test]
fn whole_numbers_stay_whole_and_an_endless_sum_is_none() {
    let number = |text: &str| serde_json::from_str::<Number>(text).unwrap();
    assert_eq!(add(&number("2"), &number("3")).unwrap().to_string(), "5");
    assert_eq!(add(&number("0.5"), &number("1")).unwrap().to_string(), "1.5");
    assert_eq!(
        add(&number("9223372036854775807"), &number("1"))
            .unwrap()
            .as_f64(),
        Some(9.223_372_036_854_776e18)
    );
    assert_eq!(add(&number("1e308"), &number("1e308")), None);
}
