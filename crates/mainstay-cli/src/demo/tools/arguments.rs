//! The arguments of a call, read one by one; what is wrong with them is said by name.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Number, Value};

use crate::demo::protocol::DemoError;

pub(super) struct DemoArguments(Map<String, Value>);

impl DemoArguments {
    pub(super) fn read(arguments: Option<&Value>) -> Result<Self, DemoError> {
        match arguments {
            None => Ok(Self(Map::new())),
            Some(Value::Object(arguments)) => Ok(Self(arguments.clone())),
            Some(_) => Err(DemoError::invalid_params("arguments must be an object")),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<String, DemoError> {
        match self.0.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) | None => Err(wrong(name, "a string")),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Number, DemoError> {
        match self.0.get(name) {
            Some(Value::Number(number)) => Ok(number.clone()),
            Some(_) | None => Err(wrong(name, "a number")),
        }
    }

    pub(super) fn seconds(&self, name: &str, most: f64) -> Result<Duration, DemoError> {
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
    ) -> Result<u64, DemoError> {
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
    ) -> Result<&'static str, DemoError> {
        let Some(given) = self.0.get(name) else {
            return Ok(default);
        };
        let chosen = choices.iter().find(|choice| given.as_str() == Some(choice));
        chosen
            .copied()
            .ok_or_else(|| wrong(name, &format!("one of {}", choices.join(", "))))
    }
}

fn wrong(name: &str, wanted: &str) -> DemoError {
    DemoError::invalid_params(format!("the argument {name} must be {wanted}"))
}
