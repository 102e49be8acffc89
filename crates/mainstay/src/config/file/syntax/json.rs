//! JSON with comments and trailing commas.

use jsonc_parser::ast::{ObjectPropName, Value as Parsed};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind, parse_to_ast};

use super::SyntaxError;
use crate::config::file::syntax::{Mapping, Node, Property, Value};

/// Comments and trailing commas, and not a liberty more: what is read here is read elsewhere too.
const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn read(text: &str) -> Result<Option<Node<'_>>, SyntaxError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &SYNTAX).map_err(|error| SyntaxError {
        at: error.range().start,
        reason: reason(error.kind()).to_owned(),
    })?;
    Ok(parsed.value.map(node))
}

/// The parser bounds how deep values nest, so this recursion is bounded too.
fn node(parsed: Parsed<'_>) -> Node<'_> {
    let (start, end) = (parsed.start(), parsed.end());
    let value = match parsed {
        Parsed::NullKeyword(_) => Value::Null,
        Parsed::BooleanLit(flag) => Value::Flag(flag.value),
        Parsed::NumberLit(number) => Value::Number(number.value.into()),
        Parsed::StringLit(text) => Value::Text(text.value),
        Parsed::Array(array) => Value::Array(array.elements.into_iter().map(node).collect()),
        Parsed::Object(object) => {
            let properties = object.properties.into_iter().map(|property| Property {
                name_at: property.name.start(),
                name: match property.name {
                    ObjectPropName::String(name) => name.value,
                    ObjectPropName::Word(name) => name.value.into(),
                },
                node: node(property.value),
            });
            Value::Object(Mapping {
                properties: properties.collect(),
            })
        }
    };
    Node { start, end, value }
}

/// What is wrong with the JSON, and how to fix it. The parser's own words would quote the file.
fn reason(kind: &ParseErrorKind) -> &'static str {
    match kind {
        ParseErrorKind::ExpectedComma => "a comma is missing here",
        ParseErrorKind::ExpectedColonAfterObjectKey => "a key must be followed by a colon",
        ParseErrorKind::ExpectedObjectValue => "a key has no value",
        ParseErrorKind::ExpectedStringObjectProperty => "a key must be in double quotes",
        ParseErrorKind::SingleQuotedStringsNotAllowed => "a string must be in double quotes",
        ParseErrorKind::MultipleRootJsonValues => "there is more after the end of the object; remove it",
        ParseErrorKind::UnterminatedArray => "this array has no closing `]`",
        ParseErrorKind::UnterminatedObject => "this object has no closing `}`",
        ParseErrorKind::UnterminatedCommentBlock => "this comment has no closing `*/`",
        ParseErrorKind::NestingDepthExceeded => "nested too deeply",
        ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            "this string has no closing quote"
        }
        ParseErrorKind::String(_) => "this escape is unknown to JSON; write `\\\\` for `\\`",
        ParseErrorKind::UnexpectedWord => "expected a value; a string must be in double quotes",
        _ => "something here is not allowed in JSON",
    }
}
