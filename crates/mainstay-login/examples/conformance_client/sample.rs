//! Values that fit a schema.

use serde_json::{Map, Value, json};

/// An object with every property that the schema names: its default where it has one.
pub(crate) fn object(schema: &Value) -> Value {
    let Value::Object(properties) = &schema["properties"] else {
        return json!({});
    };
    let filled = properties
        .iter()
        .map(|(name, schema)| (name.clone(), value(schema)));
    Value::Object(filled.collect::<Map<_, _>>())
}

fn value(schema: &Value) -> Value {
    let given = [&schema["default"], &schema["const"], &schema["enum"][0]];
    if let Some(given) = given.into_iter().find(|value| !value.is_null()) {
        return given.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!("text"),
        Some("integer") => json!(1),
        Some("number") => json!(1.5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => object(schema),
        _other => Value::Null,
    }
}
