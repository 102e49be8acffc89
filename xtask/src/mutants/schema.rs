//! Writes all mutants of a file into one text, each behind a switch: `a < b` becomes
//! `(if crate::mutant::is(7) { (a) == (b) } else { a < b })`.
//!
//! The changed expression is a copy of the original text, so mutants do not nest: only one is ever chosen.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context as _, Result};

use super::listing::{Genre, Mutant};
use super::places::{MatchedArm, Places};

/// A text with mutants in it.
pub(crate) struct SwitchedSource {
    pub(crate) text: String,
    /// Where each mutant's own text is.
    own: Vec<(usize, Range<usize>)>,
    /// The expression that surrounds each mutant.
    around: Vec<(usize, Range<usize>)>,
    /// Mutants that have no place: what they replace is not an expression of its own.
    pub(crate) without_place: Vec<usize>,
}

impl SwitchedSource {
    /// The mutants that a compiler's error at these bytes is about: the one whose text it is in, or else those around which it is.
    pub(crate) fn blamed(&self, error: &Range<usize>) -> Vec<usize> {
        let is_in = |range: &Range<usize>| range.start <= error.start && error.start < range.end;
        let own = self.own.iter().filter(|(_, range)| is_in(range));
        let mutants: Vec<usize> = own.map(|(mutant, _)| *mutant).collect();
        if !mutants.is_empty() {
            return mutants;
        }
        let around = self.around.iter().filter(|(_, range)| is_in(range));
        let Some(smallest) = around.clone().map(|(_, range)| range.len()).min() else {
            return Vec::new();
        };
        around
            .filter(|(_, range)| range.len() == smallest)
            .map(|(mutant, _)| *mutant)
            .collect()
    }
}

/// The alternatives of one expression.
struct Choice {
    whole: Range<usize>,
    alternatives: Vec<(usize, String)>,
}

/// A piece of text that goes in at one place. At the same place closing pieces come first, the smallest expression's first; then
/// opening pieces, the largest's first.
struct Insertion {
    at: usize,
    /// What the insertion makes wrong, if it makes more wrong than itself.
    around: Range<usize>,
    opens: bool,
    order: isize,
    text: String,
    mutants: Vec<usize>,
}

/// Puts the mutants into the text of their file.
pub(crate) fn write<'a>(
    original: &str,
    mutants: impl Iterator<Item = (usize, &'a Mutant)>,
) -> Result<SwitchedSource> {
    let places = Places::find(original).context("cannot parse the file")?;
    let mut choices: BTreeMap<(usize, usize), Choice> = BTreeMap::new();
    let mut insertions = Vec::new();
    let mut without_place = Vec::new();
    for (id, mutant) in mutants {
        let at = mutant
            .span
            .start
            .offset(original)
            .context("the list is of another version")?;
        let replacement = &mutant.replacement;
        let text = |range: &Range<usize>| &original[range.clone()];
        let changed = match mutant.genre {
            Genre::FnValue => {
                let text = format!("if crate::mutant::is({id}) {{ return {replacement}; }} ");
                let function = mutant.function.and_then(|function| function.span.range(original));
                insertions.push(Insertion::outermost(at, text, id, function.unwrap_or(at..at)));
                continue;
            }
            Genre::MatchArm => match places.arms.get(&at) {
                Some(MatchedArm {
                    guard: Some(guard), ..
                }) => Some((guard, "false".to_owned())),
                Some(MatchedArm {
                    whole_match,
                    pattern_end,
                    guard: None,
                }) => {
                    let text = format!(" if !crate::mutant::is({id})");
                    insertions.push(Insertion::outermost(*pattern_end, text, id, whole_match.clone()));
                    continue;
                }
                None => None,
            },
            Genre::BinaryOperator => places.binary.get(&at).map(|place| {
                let (left, right) = (text(&place.left), text(&place.right));
                (&place.whole, format!("({left}) {replacement} ({right})"))
            }),
            Genre::UnaryOperator => places.unary.get(&at).map(|place| {
                let operand = text(&place.operand);
                (&place.whole, format!("{replacement}({operand})"))
            }),
            Genre::MatchArmGuard => places.guards.get(&at).map(|guard| (guard, replacement.clone())),
            Genre::StructField => places.fields.get(&at).map(|field| {
                let (base, name) = (text(&field.base), text(&field.name));
                (&field.value, format!("({base}).{name}"))
            }),
        };
        match changed {
            None => without_place.push(id),
            Some((whole, alternative)) => choices
                .entry((whole.start, whole.end))
                .or_insert_with(|| Choice {
                    whole: whole.clone(),
                    alternatives: Vec::new(),
                })
                .alternatives
                .push((id, alternative)),
        }
    }
    insertions.extend(choices.values().flat_map(Choice::insertions));
    Ok(insert(original, insertions, without_place))
}

impl Choice {
    fn insertions(&self) -> [Insertion; 2] {
        let mutants: Vec<usize> = self.alternatives.iter().map(|(id, _)| *id).collect();
        let tests = self
            .alternatives
            .iter()
            .map(|(id, alternative)| format!("if crate::mutant::is({id}) {{ {alternative} }} else "));
        let size = isize::try_from(self.whole.len()).unwrap_or(isize::MAX);
        [
            Insertion {
                at: self.whole.start,
                around: self.whole.clone(),
                opens: true,
                order: -size,
                text: format!("({}{{ ", tests.collect::<String>()),
                mutants: mutants.clone(),
            },
            Insertion {
                at: self.whole.end,
                around: self.whole.clone(),
                opens: false,
                order: size,
                text: " })".to_owned(),
                mutants,
            },
        ]
    }
}

impl Insertion {
    fn outermost(at: usize, text: String, mutant: usize, around: Range<usize>) -> Self {
        Self {
            at,
            around,
            opens: true,
            order: isize::MIN,
            text,
            mutants: vec![mutant],
        }
    }
}

fn insert(original: &str, mut insertions: Vec<Insertion>, without_place: Vec<usize>) -> SwitchedSource {
    insertions.sort_by_key(|insertion| (insertion.at, insertion.opens, insertion.order));
    let mut schema = SwitchedSource {
        text: String::new(),
        own: Vec::new(),
        around: Vec::new(),
        without_place,
    };
    let mut copied = 0;
    for insertion in &insertions {
        schema.text.push_str(&original[copied..insertion.at]);
        copied = insertion.at;
        let start = schema.text.len();
        schema.text.push_str(&insertion.text);
        for &mutant in insertion.mutants.iter().filter(|_| insertion.opens) {
            schema.around.push((mutant, insertion.around.clone()));
            // From this mutant's switch to the next one's.
            let switch = format!("crate::mutant::is({mutant})");
            let own = insertion.text.find(&switch).unwrap_or(0);
            let rest = &insertion.text[own + switch.len()..];
            let length = rest.find("crate::mutant::is(").unwrap_or(rest.len());
            schema
                .own
                .push((mutant, start + own..start + own + switch.len() + length));
        }
    }
    schema.text.push_str(&original[copied..]);
    // Where a place of the original is now.
    let moved = |place: usize| {
        let before = insertions.iter().filter(|insertion| insertion.at < place);
        place + before.map(|insertion| insertion.text.len()).sum::<usize>()
    };
    for (_, around) in &mut schema.around {
        *around = moved(around.start)..moved(around.end);
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::listing::Mutant;
    use super::{SwitchedSource, write};

    const SOURCE: &str = "\
fn f(a: u8, b: u8) -> bool {
    match a {
        1 if b < 2 && !c => true,
        3 => false,
        _ => S { x: 4, ..s }.x,
    }
}
";

    fn mutant(genre: &str, line: usize, column: usize, replacement: &str) -> Mutant {
        let place = json!({ "line": line, "column": column });
        let function = json!({ "line": 1, "column": 1 });
        let mutant = json!({
            "package": "p", "file": "f", "name": "n", "genre": genre, "replacement": replacement,
            "span": { "start": place, "end": place },
            "function": { "span": { "start": function, "end": { "line": 7, "column": 2 } } },
        });
        serde_json::from_value(mutant).unwrap()
    }

    fn written(mutants: &[Mutant]) -> SwitchedSource {
        write(SOURCE, mutants.iter().enumerate()).unwrap()
    }

    #[test]
    fn every_mutant_is_behind_its_own_switch() {
        let schema = written(&[
            mutant("FnValue", 2, 5, "true"),
            mutant("BinaryOperator", 3, 16, "=="),
            mutant("BinaryOperator", 3, 16, ">"),
            mutant("BinaryOperator", 3, 20, "||"),
            mutant("MatchArmGuard", 3, 14, "false"),
            mutant("UnaryOperator", 3, 23, ""),
            mutant("MatchArm", 4, 9, ""),
            mutant("StructField", 5, 18, ""),
        ]);
        let expected = "\
fn f(a: u8, b: u8) -> bool {
    if crate::mutant::is(0) { return true; } match a {
        1 if (if crate::mutant::is(3) { (b < 2) || (!c) } else if crate::mutant::is(4) { false } else { \
(if crate::mutant::is(1) { (b) == (2) } else if crate::mutant::is(2) { (b) > (2) } else { b < 2 }) && \
(if crate::mutant::is(5) { (c) } else { !c }) }) => true,
        3 if !crate::mutant::is(6) => false,
        _ => S { x: (if crate::mutant::is(7) { (s).x } else { 4 }), ..s }.x,
    }
}
";
        assert_eq!(schema.text, expected);
        assert!(schema.without_place.is_empty());
    }

    #[test]
    fn an_error_is_blamed_on_the_mutant_whose_text_it_is_in_or_else_on_what_it_surrounds() {
        let schema = written(&[
            mutant("FnValue", 2, 5, "true"),
            mutant("BinaryOperator", 3, 16, "=="),
            mutant("BinaryOperator", 3, 16, ">"),
        ]);
        let blamed = |text: &str| {
            let at = schema.text.find(text).unwrap();
            schema.blamed(&(at..at + text.len()))
        };
        assert_eq!(blamed("return true"), [0]);
        assert_eq!(blamed("(b) == (2)"), [1]);
        assert_eq!(blamed("(b) > (2)"), [2]);
        assert_eq!(blamed("b < 2"), [1, 2]);
        assert_eq!(blamed("4, ..s"), [0]);
    }
}
