//! Rows of cells in aligned columns.

use super::paint::{Ink, Paint};
use super::text::width;

/// One cell: plain text, so that its width is known, and its colour.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    ink: Ink,
    right: bool,
}

impl Cell {
    pub(crate) fn new(ink: Ink, text: impl Into<String>) -> Self {
        let (text, right) = (text.into(), false);
        Self { text, ink, right }
    }

    /// A number: aligned to the right.
    pub(crate) fn number(ink: Ink, text: impl Into<String>) -> Self {
        let (text, right) = (text.into(), true);
        Self { text, ink, right }
    }
}

/// The rows as lines, two spaces between columns.
pub(crate) fn table(paint: Paint, rows: &[Vec<Cell>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| width(&cell.text))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let line = |row: &Vec<Cell>| {
        let mut line = String::new();
        for (cell, column) in row.iter().zip(&widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let pad = " ".repeat(column - width(&cell.text));
            let text = paint.ink(cell.ink, &cell.text);
            line.push_str(&if cell.right { pad + &text } else { text + &pad });
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_no_line_ends_in_spaces() {
        let row = |name: &str, number: &str, last: &str| {
            vec![
                Cell::new(Ink::Cyan, name),
                Cell::number(Ink::None, number),
                Cell::new(Ink::Dim, last),
            ]
        };
        let lines = table(Paint::PLAIN, &[row("a", "5", "x"), row("longer", "12", "")]);
        assert_eq!(lines, ["a        5  x", "longer  12"]);
    }
}
