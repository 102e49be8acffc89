//! The figures, as a table for people and as JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::compare::RatioPair;

/// One figure: what Mainstay takes, over what the same thing takes without it.
pub(crate) struct RatioRow {
    pub(crate) name: &'static str,
    pub(crate) base: Side,
    pub(crate) ours: Side,
    pub(crate) ratio: f64,
    /// What the ratio should not exceed, where there is such an aim.
    pub(crate) aim: Option<f64>,
}

/// One side of a ratio.
pub(crate) struct Side {
    pub(crate) what: &'static str,
    pub(crate) amount: RatioAmount,
}

impl RatioPair {
    pub(crate) fn row(
        &self,
        name: &'static str,
        base: &'static str,
        ours: &'static str,
        aim: Option<f64>,
    ) -> RatioRow {
        let side = |what, median| Side {
            what,
            amount: RatioAmount::Nanoseconds(median),
        };
        let (base_took, ours_took) = self.medians();
        RatioRow {
            name,
            base: side(base, base_took),
            ours: side(ours, ours_took),
            ratio: self.ratio(),
            aim,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum RatioAmount {
    Nanoseconds(f64),
    Bytes(f64),
}

impl RatioAmount {
    pub(crate) fn number(self) -> f64 {
        match self {
            Self::Nanoseconds(number) | Self::Bytes(number) => number,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Nanoseconds(_) => "ns",
            Self::Bytes(_) => "bytes",
        }
    }

    fn text(self) -> String {
        match self {
            Self::Nanoseconds(ns) if ns < 1e3 => format!("{ns:.1} ns"),
            Self::Nanoseconds(ns) if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
            Self::Nanoseconds(ns) => format!("{:.2} ms", ns / 1e6),
            Self::Bytes(bytes) => format!("{:.1} KiB", bytes / 1024.0),
        }
    }
}

pub(crate) fn table(rows: &[RatioRow]) -> String {
    let mut text = String::from("| figure | without | with | ratio | aim |\n|---|---|---|---|---|\n");
    for row in rows {
        let side = |side: &Side| format!("{}: {}", side.what, side.amount.text());
        let aim = row.aim.map_or("–".to_owned(), |aim| format!("≤ {aim}"));
        let (base, ours) = (side(&row.base), side(&row.ours));
        writeln!(
            text,
            "| {} | {base} | {ours} | {:.3} | {aim} |",
            row.name, row.ratio
        )
        .expect("memory takes any text");
    }
    text
}

pub(crate) fn json(rows: &[RatioRow]) -> Value {
    let side = |side: &Side| {
        json!({
            "what": side.what,
            "amount": side.amount.number(),
            "unit": side.amount.unit(),
        })
    };
    rows.iter()
        .map(|row| {
            json!({
                "name": row.name,
                "base": side(&row.base),
                "ours": side(&row.ours),
                "ratio": row.ratio,
                "aim": row.aim,
            })
        })
        .collect()
}
