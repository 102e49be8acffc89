//! The arguments of a call, read one by one; what is wrong with them is said by name.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Number, Value};

use crate::demo::protocol::RpcError;

pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    pub(super) fn read(arguments: Option<&Value>) -> Result<Self, RpcError> {
        match arguments {
            None => Ok(Self(Map::new())),
            Some(Value::Object(arguments)) => Ok(Self(arguments.clone())),
            Some(_) => Err(RpcError::invalid_params("arguments must be an object")),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<String, RpcError> {
        match self.0.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) | None => Err(wrong(name, "a string")),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Number, RpcError> {
        match self.0.get(name) {
            Some(Value::Number(number)) => Ok(number.clone()),
            Some(_) | None => Err(wrong(name, "a number")),
        }
    }

    pub(super) fn seconds(&self, name: &str, most: f64) -> Result<Duration, RpcError> {
        let seconds = self
            .number(name)?
            .as_f64()
            .filter(|seconds| (0.0..=most).contains(seconds));
        seconds
            .map(Duration::from_secs_f64)
            .ok_or_else(|| wrong(name, &format!("a number of seconds from 0 to {most}")))
    }

    pub(super) fn whole(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
        default: Option<u64>,
    ) -> Result<u64, RpcError> {
        let given = match self.0.get(name) {
            Some(value) => value.as_u64(),
            None => default,
        };
        given.filter(|number| range.contains(number)).ok_or_else(|| {
            wrong(
                name,
                &format!("a whole number from {} to {}", range.start(), range.end()),
            )
        })
    }

    pub(super) fn choice(
        &self,
        name: &str,
        choices: &[&'static str],
        default: &'static str,
    ) -> Result<&'static str, RpcError> {
        let Some(given) = self.0.get(name) else {
            return Ok(default);
        };
        let chosen = choices.iter().find(|choice| given.as_str() == Some(choice));
        chosen
            .copied()
            .ok_or_else(|| wrong(name, &format!("one of {}", choices.join(", "))))
    }
}

fn wrong(name: &str, wanted: &str) -> RpcError {
    RpcError::invalid_params(format!("the argument {name} must be {wanted}"))
}
