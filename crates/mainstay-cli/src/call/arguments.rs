//! The arguments of a call, as a person writes them: a JSON object, `-` for stdin, or `key=value` pairs.

use std::io::Read;

use anyhow::{Context as _, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use mainstay::RawJson;

/// The most that is read from stdin. The transports carry no larger message.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The arguments as far as they can be read before the tool's schema is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallArguments {
    /// JSON, sent byte for byte.
    Json(RawJson),
    Pairs(Vec<(String, String)>),
}

impl CallArguments {
    /// Reads what was written. Blocks while it reads stdin.
    pub(crate) fn read(written: &[String], stdin: impl Read) -> anyhow::Result<Self> {
        match written {
            [] => Ok(Self::Json(RawJson::EMPTY_OBJECT)),
            [dash] if dash == "-" => {
                let mut text = String::new();
                let mut bounded = stdin.take(MAX_BYTES + 1);
                bounded
                    .read_to_string(&mut text)
                    .context("cannot read the arguments from stdin")?;
                if text.len() as u64 > MAX_BYTES {
                    bail!("the arguments on stdin are larger than {MAX_BYTES} bytes");
                }
                object(&text).context("stdin")
            }
            [text] if text.trim_start().starts_with(['{', '[']) => object(text),
            pairs => pairs
                .iter()
                .map(|pair| split(pair))
                .collect::<Result<_, _>>()
                .map(Self::Pairs),
        }
    }

    /// The arguments of a prompt, which are all text.
    pub(crate) fn all_text(&self) -> anyhow::Result<RawJson> {
        let Self::Pairs(pairs) = self else {
            return self.fit(None);
        };
        let mut object = Map::new();
        for (key, text) in pairs {
            if object.insert(key.clone(), Value::from(text.as_str())).is_some() {
                bail!("the argument {key:?} is given twice");
            }
        }
        Ok(RawJson::from_value(&object)?)
    }

    /// The arguments as they are sent. `schema` is the tool's `inputSchema`; the server judges whether they fit it.
    pub(crate) fn fit(&self, schema: Option<&Schema>) -> anyhow::Result<RawJson> {
        let pairs = match self {
            Self::Json(json) => return Ok(json.clone()),
            Self::Pairs(pairs) => pairs,
        };
        let mut object = Map::new();
        for (key, text) in pairs {
            let value = if schema.is_some_and(|schema| schema.is_text(key)) {
                Value::from(text.as_str())
            } else {
                serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
            };
            if object.insert(key.clone(), value).is_some() {
                bail!("the argument {key:?} is given twice");
            }
        }
        Ok(RawJson::from_value(&object)?)
    }
}

/// What is read of a tool's `inputSchema`.
#[derive(Debug, Deserialize)]
pub(crate) struct Schema {
    #[serde(default)]
    properties: Map<String, Value>,
}

impl Schema {
    /// Whether an argument is text and nothing else.
    fn is_text(&self, key: &str) -> bool {
        self.properties
            .get(key)
            .and_then(|property| property.get("type"))
            .is_some_and(|kind| kind == "string")
    }
}

fn object(text: &str) -> anyhow::Result<CallArguments> {
    let json = RawJson::from_text(text).map_err(|error| anyhow!("the arguments are not JSON: {error}"))?;
    if !json.as_str().starts_with('{') {
        bail!("the arguments are not a JSON object: write '{{\"key\": value}}'");
    }
    Ok(CallArguments::Json(json))
}

fn split(pair: &str) -> anyhow::Result<(String, String)> {
    match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(anyhow!(
            "the argument {pair:?} is neither a JSON object nor KEY=VALUE: write '{{\"key\": value}}' or key=value"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &[&str]) -> anyhow::Result<CallArguments> {
        let written: Vec<_> = written.iter().map(|&text| text.to_owned()).collect();
        CallArguments::read(&written, &br#" {"from": "stdin"} "#[..])
    }

    fn sent(written: &[&str], schema: &str) -> String {
        let schema: Schema = serde_json::from_str(schema).unwrap();
        read(written).unwrap().fit(Some(&schema)).unwrap().to_string()
    }

    #[test]
    fn json_is_sent_byte_for_byte() {
        let text = r#"{"b": 1.0e2, "a": [1 ,2]}"#;
        assert_eq!(sent(&[text], "{}"), text);
        assert_eq!(sent(&["-"], "{}"), r#"{"from": "stdin"}"#);
        assert_eq!(sent(&[], "{}"), "{}");
    }

    #[test]
    fn a_pair_is_what_the_schema_says_or_else_what_it_looks_like() {
        let schema = r#"{"properties": {"text": {"type": "string"}, "n": {"type": "number"}}}"#;
        assert_eq!(sent(&["text=5", "n=5"], schema), r#"{"n":5,"text":"5"}"#);
        assert_eq!(
            sent(&["a=true", "b=[1]", "c=x=y", "d="], "{}"),
            r#"{"a":true,"b":[1],"c":"x=y","d":""}"#
        );
    }

    #[test]
    fn what_is_neither_json_nor_a_pair_is_refused() {
        for written in [
            &["{\"a\": }"][..],
            &["[1]"],
            &["hello"],
            &["=x"],
            &["a=1", "{}"],
            &["{} {}"],
        ] {
            assert!(read(written).is_err(), "{written:?}");
        }
        assert!(read(&["a=1", "a=2"]).unwrap().fit(None).is_err());
    }
}
