//! TOML.

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use super::SyntaxError;
use crate::config::file::syntax::{Mapping, Node, Property, Value};

pub(super) fn read(text: &str) -> Result<Node<'_>, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| SyntaxError {
        at: error.span().map_or(0, |span| span.start),
        // The parser's words name what it expected, never what the text holds.
        reason: error.message().lines().collect::<Vec<_>>().join(", "),
    })?;
    let span = table.span();
    Ok(Node {
        start: span.start,
        end: span.end,
        value: object(table.into_inner()),
    })
}

/// The parser bounds how deep values nest, so this recursion is bounded too.
fn node<'t>(spanned: Spanned<DeValue<'t>>) -> Node<'t> {
    let span = spanned.span();
    let value = match spanned.into_inner() {
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            // What is too large to be a number of ours is still shown as it was written.
            Value::Number(
                parsed
                    .map_or_else(|_| number.to_string(), |number| number.to_string())
                    .into(),
            )
        }
        DeValue::Float(number) => Value::Number(number.as_str().to_owned().into()),
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Datetime(datetime) => Value::Text(datetime.to_string().into()),
        DeValue::Array(items) => Value::Array(items.into_iter().map(node).collect()),
        DeValue::Table(table) => object(table),
    };
    Node {
        start: span.start,
        end: span.end,
        value,
    }
}

fn object<'t>(table: DeTable<'t>) -> Value<'t> {
    let mut properties: Vec<Property<'t>> = table
        .into_iter()
        .map(|(name, value)| Property {
            name_at: name.span().start,
            name: name.into_inner(),
            node: node(value),
        })
        .collect();
    // The parser sorts them by name.
    properties.sort_by_key(|property| property.name_at);
    Value::Object(Mapping { properties })
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::config::file::syntax::Value;

    #[test]
    fn tables_keep_the_order_and_the_places_of_the_text() {
        let text = "z = 1_000\n[b.\"x y\"]\nk = 'v'\n[a]\nn = 0x1f\nf = 1.5\nl = [true]\nd = 2026-01-02\n";
        let root = read(text).unwrap();
        let root = root.as_object().unwrap();
        let names: Vec<_> = root.properties.iter().map(|property| &*property.name).collect();
        assert_eq!(names, ["z", "b", "a"]);
        assert!(matches!(&root.get("z").unwrap().value, Value::Number(n) if n == "1000"));
        let nested = root.object("b").unwrap().object("x y").unwrap();
        let value = nested.get("k").unwrap();
        assert_eq!(
            (value.as_text(), &text[value.start..value.end]),
            (Some("v"), "'v'")
        );
        let a = root.object("a").unwrap();
        assert!(matches!(&a.get("n").unwrap().value, Value::Number(n) if n == "31"));
        assert!(matches!(&a.get("f").unwrap().value, Value::Number(n) if n == "1.5"));
        assert!(
            matches!(a.get("l").unwrap().as_array(), Some([item]) if matches!(item.value, Value::Flag(true)))
        );
        assert_eq!(a.text("d"), Some("2026-01-02"));
    }

    #[test]
    fn a_mistake_has_a_place_and_a_reason() {
        let error = read("[a]\nk = \n").unwrap_err();
        assert_eq!(
            (error.at, error.reason.is_empty()),
            (8, false),
            "{}",
            error.reason
        );
        assert!(!error.reason.contains('\n'));
    }
}
