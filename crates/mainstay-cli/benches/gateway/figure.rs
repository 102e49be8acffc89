//! The figures, as a table for the documents and as JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::compare::RatioPair;

/// One figure: what something takes through a gateway and, where there is such a thing, directly.
pub(crate) struct Figure {
    name: String,
    direct: Option<Amount>,
    through: Amount,
    reading: Reading,
    aim: Option<f64>,
}

#[derive(Clone, Copy)]
pub(crate) enum Amount {
    Nanoseconds(f64),
    Bytes(f64),
    Times(f64),
}

/// What is read off the two sides, and aimed at.
#[derive(Clone, Copy)]
enum Reading {
    /// How many times as long it takes; the less the better.
    Ratio(f64),
    /// How many times as often it can be done; the more the better.
    Throughput(f64),
    /// How many nanoseconds more it takes; the less the better.
    More(f64),
    /// The amount itself; the less the better.
    Itself,
}

impl Figure {
    /// How many times as long a thing takes.
    pub(crate) fn ratio(name: impl Into<String>, pair: &RatioPair, aim: Option<f64>) -> Self {
        Self::of_pair(name.into(), pair, Reading::Ratio(pair.ratio()), aim)
    }

    /// How many times as often a thing can be done, by the time that each takes.
    pub(crate) fn throughput(name: impl Into<String>, pair: &RatioPair, aim: Option<f64>) -> Self {
        Self::of_pair(name.into(), pair, Reading::Throughput(1.0 / pair.ratio()), aim)
    }

    /// How many nanoseconds more a thing takes.
    pub(crate) fn more(name: impl Into<String>, pair: &RatioPair, aim: Option<f64>) -> Self {
        let (direct, through) = pair.medians();
        Self::of_pair(name.into(), pair, Reading::More(through - direct), aim)
    }

    /// How long a thing takes through the gateway; the direct side has no say.
    pub(crate) fn time(name: impl Into<String>, pair: &RatioPair, aim: Option<f64>) -> Self {
        Self::of_pair(name.into(), pair, Reading::Itself, aim)
    }

    /// An amount that has no other side.
    pub(crate) fn amount(name: impl Into<String>, amount: Amount, aim: Option<f64>) -> Self {
        Self {
            name: name.into(),
            direct: None,
            through: amount,
            reading: Reading::Itself,
            aim,
        }
    }

    fn of_pair(name: String, pair: &RatioPair, reading: Reading, aim: Option<f64>) -> Self {
        let (direct, through) = pair.medians();
        Self {
            name,
            direct: Some(Amount::Nanoseconds(direct)),
            through: Amount::Nanoseconds(through),
            reading,
            aim,
        }
    }

    fn reading(&self) -> String {
        match self.reading {
            Reading::Ratio(times) | Reading::Throughput(times) => format!("{times:.2}"),
            Reading::More(more) => format!("+ {}", Amount::Nanoseconds(more).text()),
            Reading::Itself => "–".to_owned(),
        }
    }

    fn aim(&self) -> String {
        let Some(aim) = self.aim else {
            return "–".to_owned();
        };
        let (aimed, is_met) = match self.reading {
            Reading::Ratio(times) => (format!("≤ {aim}"), times <= aim),
            Reading::Throughput(times) => (format!("≥ {aim} of the throughput"), times >= aim),
            Reading::More(more) => (format!("≤ + {}", Amount::Nanoseconds(aim).text()), more <= aim),
            Reading::Itself => (
                format!("≤ {}", self.through.with(aim).text()),
                self.through.number() <= aim,
            ),
        };
        format!("{aimed}, {}", if is_met { "met" } else { "not met" })
    }
}

impl Amount {
    fn number(self) -> f64 {
        match self {
            Self::Nanoseconds(number) | Self::Bytes(number) | Self::Times(number) => number,
        }
    }

    fn with(self, number: f64) -> Self {
        match self {
            Self::Nanoseconds(_) => Self::Nanoseconds(number),
            Self::Bytes(_) => Self::Bytes(number),
            Self::Times(_) => Self::Times(number),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Nanoseconds(_) => "ns",
            Self::Bytes(_) => "bytes",
            Self::Times(_) => "times",
        }
    }

    fn text(self) -> String {
        match self {
            Self::Nanoseconds(ns) if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
            Self::Nanoseconds(ns) => format!("{:.1} ms", ns / 1e6),
            Self::Bytes(bytes) if bytes < 1e6 => format!("{:.1} KB", bytes / 1e3),
            Self::Bytes(bytes) => format!("{:.1} MB", bytes / 1e6),
            Self::Times(times) => format!("{times:.1}"),
        }
    }
}

pub(crate) fn table(figures: &[Figure]) -> String {
    let mut text =
        String::from("| figure | direct | through the gateway | ratio | aim |\n|---|---|---|---|---|\n");
    for figure in figures {
        let direct = figure.direct.map_or("–".to_owned(), Amount::text);
        let (through, reading, aim) = (figure.through.text(), figure.reading(), figure.aim());
        writeln!(
            text,
            "| {} | {direct} | {through} | {reading} | {aim} |",
            figure.name
        )
        .expect("memory takes any text");
    }
    text
}

pub(crate) fn json(figures: &[Figure]) -> Value {
    let amount = |amount: Amount| json!({ "amount": amount.number(), "unit": amount.unit() });
    figures
        .iter()
        .map(|figure| {
            let reading = match figure.reading {
                Reading::Ratio(value) | Reading::Throughput(value) | Reading::More(value) => value,
                Reading::Itself => figure.through.number(),
            };
            json!({
                "name": figure.name,
                "direct": figure.direct.map(amount),
                "through": amount(figure.through),
                "reading": reading,
                "aim": figure.aim,
            })
        })
        .collect()
}
