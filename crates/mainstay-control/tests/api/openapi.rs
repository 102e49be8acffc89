//! The OpenAPI document describes what is really answered: no field is missing there, and every field there is answered.

use std::collections::BTreeSet;

use mainstay_control::api::ActorKind;
use serde_json::{Value, json};

use crate::support::World;

#[tokio::test]
async fn every_answer_has_the_form_that_the_document_says() {
    let world = World::one().await;
    let (status, document) = ask(&world, "GET", "/api/v1/openapi.json").await;
    assert_eq!(status, 200);
    // Events of several kinds, a failure, and a session would be missing from a program that just started.
    let client = world.client.clone().via(ActorKind::Dashboard);
    client.restart("one").await.expect("restarted");
    client.disable("one").await.expect("disabled");
    client.restart("one").await.expect_err("disabled");
    client.reload().await.expect_err("no file");
    let (_near, remote) = tokio::io::duplex(1024);
    let gateway = world.gateway.clone();
    tokio::spawn(async move {
        let (input, output) = tokio::io::split(remote);
        gateway
            .serve_stdio(mainstay_gateway::Scope::Union, input, output)
            .await;
    });
    while world.control.sessions().sessions.is_empty() {
        tokio::task::yield_now().await;
    }
    let mut answered = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let methods = ["get", "post", "patch", "delete"];
            assert!(methods.contains(&method.as_str()), "{path} {method}");
            if operation["responses"]["200"]["content"]["text/event-stream"].is_object() {
                // A stream has no end.
                continue;
            }
            for name in ["one", "unknown"] {
                let real = path.replace("{name}", name);
                let (status, answer) = ask(&world, &method.to_uppercase(), &real).await;
                let responses = &operation["responses"];
                let response = &responses[status.to_string()];
                assert!(
                    response.is_object(),
                    "{method} {real} answered {status}: {answer}"
                );
                let schema = &response["content"]["application/json"]["schema"];
                let schema = if schema.is_null() {
                    &response["content"]["text/plain"]["schema"]
                } else {
                    schema
                };
                let errors = Checker(&document).errors(schema, &answer, "answer");
                assert!(
                    errors.is_empty(),
                    "{method} {real} {status}: {errors:#?}\n{answer:#}"
                );
                answered.insert((path.clone(), method.clone(), status));
            }
        }
    }
    for (path, method, status) in [
        ("/api/v1", "get", 200),
        ("/api/v1/servers", "get", 200),
        ("/api/v1/servers/{name}", "get", 200),
        ("/api/v1/servers/{name}", "get", 404),
        ("/api/v1/servers/{name}/catalog", "get", 200),
        ("/api/v1/servers/{name}/enable", "post", 200),
        ("/api/v1/servers/{name}/ping", "post", 200),
        ("/api/v1/servers/{name}/login", "get", 200),
        ("/api/v1/servers/{name}/login", "post", 409),
        ("/api/v1/events", "get", 200),
        ("/api/v1/sessions", "get", 200),
        ("/api/v1/reload", "post", 501),
    ] {
        let wanted = (path.to_owned(), method.to_owned(), status);
        assert!(
            answered.contains(&wanted),
            "{wanted:?} is not among {answered:#?}"
        );
    }
    let (_, page) = ask(&world, "GET", "/api/v1/events").await;
    let kinds: BTreeSet<&str> = page["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert!(
        kinds.is_superset(&BTreeSet::from(["transition", "command", "reload_refused"])),
        "{kinds:?}"
    );
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let document = json!({ "components": { "schemas": {
        "Inner": { "type": "object", "required": ["n"], "properties": { "n": { "type": ["integer", "null"] } } },
        "Kind": { "oneOf": [
            { "type": "object", "required": ["type"], "properties": { "type": { "enum": ["a"] } } },
            { "type": "object", "required": ["type", "x"], "properties": { "type": { "enum": ["b"] }, "x": { "type": "string" } } },
        ] },
        "Outer": { "allOf": [
            { "$ref": "#/components/schemas/Kind" },
            { "type": "object", "properties": { "inner": { "$ref": "#/components/schemas/Inner" } } },
        ] },
    } } });
    let outer = json!({ "$ref": "#/components/schemas/Outer" });
    for (value, is_good) in [
        (json!({ "type": "a", "inner": { "n": 1 } }), true),
        (json!({ "type": "b", "x": "y", "inner": { "n": null } }), true),
        (json!({ "type": "b", "inner": { "n": 1 } }), false),
        (json!({ "type": "a", "x": "y" }), false),
        (json!({ "type": "a", "inner": {} }), false),
        (json!({ "type": "a", "inner": { "n": 1.5 } }), false),
        (json!({ "type": "a", "other": 1 }), false),
        (json!([]), false),
    ] {
        let errors = Checker(&document).errors(&outer, &value, "value");
        assert_eq!(errors.is_empty(), is_good, "{value}: {errors:?}");
    }
}

async fn ask(world: &World, method: &str, path: &str) -> (u16, Value) {
    let body = match (method, path) {
        ("POST", "/api/v1/servers") => r#"{"name":"new","entry":{"command":"true"}}"#,
        ("PATCH", _) => r#"{"command":"true"}"#,
        ("POST", path) if path.ends_with("/login/callback") => r#"{"address":"http://127.0.0.1:1/callback"}"#,
        _other => "",
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    world.raw(&request).await
}

/// Checks JSON against the schemas of a document. A property that the schema does not name is an error.
struct Checker<'a>(&'a Value);

impl Checker<'_> {
    fn errors(&self, schema: &Value, value: &Value, place: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let known = self.check(schema, value, place, &mut errors);
        if let (Some(object), Known::Only(known)) = (value.as_object(), known) {
            let extra = object.keys().filter(|key| !known.contains(*key));
            errors.extend(extra.map(|key| format!("{place}.{key} is not in the schema")));
        }
        errors
    }

    /// Adds what is wrong, and returns the properties that the schema knows.
    fn check(&self, schema: &Value, value: &Value, place: &str, errors: &mut Vec<String>) -> Known {
        if let Some(reference) = schema["$ref"].as_str() {
            let pointer = reference.strip_prefix('#').expect("a local reference");
            let target = self
                .0
                .pointer(pointer)
                .unwrap_or_else(|| panic!("{reference} leads nowhere"));
            return self.check(target, value, place, errors);
        }
        let mut known = Known::Only(BTreeSet::new());
        if let Some(parts) = schema["allOf"].as_array() {
            for part in parts {
                known = known.and(self.check(part, value, place, errors));
            }
            return known;
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let tried = choices.iter().map(|choice| {
                let mut errors = Vec::new();
                let known = self.check(choice, value, place, &mut errors);
                (errors, known)
            });
            let tried: Vec<_> = tried.collect();
            let mut fitting = tried.iter().filter(|(errors, _)| errors.is_empty());
            return match (fitting.next(), fitting.next()) {
                (Some((_, known)), None) => known.clone(),
                (None, _) => {
                    errors.push(format!("{place} fits none of the choices: {tried:?}"));
                    Known::Anything
                }
                (Some(_), Some(_)) => {
                    errors.push(format!("{place} fits several choices"));
                    Known::Anything
                }
            };
        }
        if let Some(words) = schema["enum"].as_array()
            && !words.contains(value)
        {
            errors.push(format!("{place} is {value}, not one of {words:?}"));
        }
        self.check_type(schema, value, place, errors);
        if let Some(items) = value.as_array() {
            for (at, item) in items.iter().enumerate() {
                errors.extend(self.errors(&schema["items"], item, &format!("{place}[{at}]")));
            }
        }
        let Some(properties) = schema["properties"].as_object() else {
            return Known::Anything;
        };
        for required in schema["required"].as_array().into_iter().flatten() {
            let name = required.as_str().expect("a name");
            if value.get(name).is_none() {
                errors.push(format!("{place}.{name} is missing"));
            }
        }
        for (name, property) in properties {
            if let Some(value) = value.get(name) {
                errors.extend(self.errors(property, value, &format!("{place}.{name}")));
            }
        }
        Known::Only(properties.keys().cloned().collect())
    }

    fn check_type(&self, schema: &Value, value: &Value, place: &str, errors: &mut Vec<String>) {
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _any => return,
        };
        let fits = |name: &&str| match *name {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("an unknown type {other}"),
        };
        if !types.iter().any(fits) {
            errors.push(format!("{place} is {value}, not {types:?}"));
        }
    }
}

/// The properties that a schema knows.
#[derive(Clone, Debug)]
enum Known {
    Anything,
    Only(BTreeSet<String>),
}

impl Known {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Only(mut some), Self::Only(more)) => {
                some.extend(more);
                Self::Only(some)
            }
            (Self::Anything, _) | (_, Self::Anything) => Self::Anything,
        }
    }
}
