//! Rows of cells in aligned columns.

use mainstay::gateway::PlainText;

use super::paint::{Ink, Paint};
use super::text::{Text, width};

/// One cell: text on one line without sequences, so that its width is known, and its colour. It cleans what it is given.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: Text,
    ink: Ink,
    right: bool,
}

impl Cell {
    pub(crate) fn new(ink: Ink, text: impl AsRef<str>) -> Self {
        let (text, right) = (PlainText::line(text.as_ref()).into(), false);
        Self { text, ink, right }
    }

    /// A number: aligned to the right.
    pub(crate) fn number(ink: Ink, text: impl AsRef<str>) -> Self {
        let (text, right) = (PlainText::line(text.as_ref()).into(), true);
        Self { text, ink, right }
    }
}

/// The rows as lines, two spaces between columns.
pub(crate) fn table(paint: Paint, rows: &[Vec<Cell>]) -> Vec<Text> {
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
        let mut line = Text::default();
        // A column in which nothing stands takes no place.
        let cells = row.iter().zip(&widths).filter(|(_, column)| **column > 0);
        for (n, (cell, column)) in cells.enumerate() {
            if n > 0 {
                line.push("  ");
            }
            let pad = Text::spaces(column - width(&cell.text));
            let text = paint.ink(cell.ink, &cell.text);
            let [first, last] = if cell.right { [pad, text] } else { [text, pad] };
            line.push(first);
            line.push(last);
        }
        line.trimmed()
    };
    rows.iter().map(line).collect()
}

/// The rows as lines of at most this width. The last columns give way as long as the lines are longer, but for the first `needed`.
pub(crate) fn table_within(
    paint: Paint,
    width_limit: usize,
    needed: usize,
    mut rows: Vec<Vec<Cell>>,
) -> Vec<Text> {
    let is_narrow = |rows: &[Vec<Cell>]| {
        let mut lines = table(Paint::PLAIN, rows).into_iter();
        lines.all(|line| width(&line) <= width_limit)
    };
    while !is_narrow(&rows) && rows.iter().any(|row| row.len() > needed) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        rows.iter_mut().for_each(|row| row.truncate(columns - 1));
    }
    table(paint, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_columns_give_way_on_a_narrow_terminal() {
        let rows = || {
            vec![
                ["name", "state", "12345"]
                    .map(|text| Cell::new(Ink::None, text))
                    .to_vec(),
            ]
        };
        for (width, expected) in [
            (18, "name  state  12345"),
            (17, "name  state"),
            (3, "name  state"),
        ] {
            assert_eq!(table_within(Paint::PLAIN, width, 2, rows())[0].as_str(), expected);
        }
    }

    #[test]
    fn a_column_without_text_takes_no_place() {
        let row = ["a", "", "b"].map(|text| Cell::new(Ink::None, text)).to_vec();
        let lines = table(Paint::PLAIN, &[row]);
        assert_eq!(lines[0].as_str(), "a  b");
    }

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
        let lines: Vec<_> = lines.iter().map(Text::as_str).collect();
        assert_eq!(lines, ["a        5  x", "longer  12"]);
    }
}
