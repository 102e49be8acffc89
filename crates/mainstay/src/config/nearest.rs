//! Which known name a misspelt one was meant to be.

/// What one search may cost, in letters looked at and letters compared: a few milliseconds. It is enough for tens of
/// thousands of names; in a search that reaches it, the nearest name so far is the answer.
const WORK_LIMIT: usize = 2_000_000;

/// The known name nearest to `written`, if one is near enough to be meant; the first of equals.
///
/// The search is bounded however many names there are: after some tens of thousands the nearest so far is taken.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    Search::new(written).among(known)
}

/// A search for the name that was meant. What it allocates is used for all names.
struct Search {
    written: Vec<char>,
    candidate: Vec<char>,
    rows: Rows,
    /// What it has cost so far.
    work: usize,
}

impl Search {
    fn new(written: &str) -> Self {
        Self {
            written: plain(written).collect(),
            candidate: Vec::new(),
            rows: Rows::default(),
            work: 0,
        }
    }

    fn among<'k>(&mut self, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
        // A third of the letters may be wrong: more than that and the guess would mislead.
        let mut tolerance = (self.written.len() / 3).max(1);
        let mut nearest = None;
        for key in known {
            if self.work >= WORK_LIMIT {
                return nearest;
            }
            let Some(distance) = self.distance_to(key, tolerance) else {
                continue;
            };
            nearest = Some(key);
            // Only a nearer one can take its place.
            match distance.checked_sub(1) {
                Some(nearer) => tolerance = nearer,
                None => return nearest,
            }
        }
        nearest
    }

    /// How far this name is from the written one, if it is no farther than this.
    fn distance_to(&mut self, key: &str, tolerance: usize) -> Option<usize> {
        // The distance is at least the difference in length, so of an absurdly long name only the beginning is read.
        let longest = self.written.len() + tolerance;
        self.candidate.clear();
        self.candidate.extend(plain(key).take(longest + 1));
        self.work += self.candidate.len();
        let Self {
            written,
            candidate,
            rows,
            work,
        } = self;
        distance(written, candidate, tolerance, rows, work)
    }
}

/// Case and word separators are not what a person gets wrong.
fn plain(key: &str) -> impl Iterator<Item = char> {
    key.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
}

/// The last three rows of the table of distances between beginnings.
#[derive(Default)]
struct Rows {
    before_last: Vec<usize>,
    last: Vec<usize>,
    row: Vec<usize>,
}

/// How many letters must be added, dropped, replaced or swapped with their neighbour to turn `a` into `b`, if that is no more
/// than `most`. Only the part of the table is filled in which the distance can be so small, and `work` counts it.
///
/// `strsim::osa_distance` computes the same, but it always fills the whole table, allocates for each name and has no bound.
fn distance(a: &[char], b: &[char], most: usize, rows: &mut Rows, work: &mut usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    // What is outside of the part that is filled counts as too far.
    let too_far = most + 1;
    let Rows {
        before_last,
        last,
        row,
    } = rows;
    for row in [&mut *before_last, &mut *last, &mut *row] {
        row.clear();
        row.resize(b.len() + 1, too_far);
    }
    for (j, cell) in last.iter_mut().enumerate().take(too_far) {
        *cell = j;
    }
    for i in 1..=a.len() {
        let (from, to) = (i.saturating_sub(most).max(1), (i + most).min(b.len()));
        row[from - 1] = if from == 1 { i.min(too_far) } else { too_far };
        let mut least = row[from - 1];
        for j in from..=to {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut cell = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cell = cell.min(before_last[j - 2] + 1);
            }
            row[j] = cell.min(too_far);
            least = least.min(row[j]);
        }
        // The next row looks one cell further.
        if let Some(cell) = row.get_mut(to + 1) {
            *cell = too_far;
        }
        *work += (to + 1).saturating_sub(from);
        // No later row is nearer: a swap, too, costs more than the cell below the one that it begins at.
        if least > most {
            return None;
        }
        std::mem::swap(before_last, last);
        std::mem::swap(last, row);
    }
    Some(last[b.len()]).filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::{Rows, Search, WORK_LIMIT, nearest};

    const KNOWN: [&str; 5] = ["command", "args", "env", "startup_timeout", "cwd"];

    #[test]
    fn a_slip_of_the_pen_is_understood() {
        for (written, meant) in [
            ("comand", "command"),
            ("commnad", "command"),
            ("Command", "command"),
            ("arg", "args"),
            ("enviroment", ""),
            ("startup-timeout", "startup_timeout"),
            ("startTimeout", "startup_timeout"),
            ("dwc", ""),
        ] {
            assert_eq!(nearest(written, KNOWN).unwrap_or(""), meant, "{written}");
        }
    }

    #[test]
    fn something_else_entirely_is_not_guessed_at() {
        assert_eq!(nearest("", KNOWN), None);
        assert_eq!(nearest("x", KNOWN), None);
        assert_eq!(nearest(&"x".repeat(100_000), KNOWN), None);
    }

    #[test]
    fn the_first_of_the_nearest_is_meant() {
        let known = ["get_issues", "get_issue", "get-issue", "set_issue"];
        assert_eq!(nearest("get_isue", known), Some("get_issue"));
        assert_eq!(
            nearest("get_isue", ["set_issue", "get_issues"]),
            Some("set_issue")
        );
    }

    #[test]
    fn distance_counts_each_kind_of_slip_once() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("abc", "ac", 1),
            ("abc", "axc", 1),
            ("abc", "acb", 1),
            ("ab", "ab", 0),
        ] {
            assert_eq!(distance(a, b, 10), Some(expected), "{a} {b}");
            assert_eq!(distance(b, a, 10), Some(expected), "{b} {a}");
        }
    }

    fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        super::distance(&chars(a), &chars(b), most, &mut Rows::default(), &mut 0)
    }

    /// The whole table, as it stands in the books.
    fn table(a: &[u8], b: &[u8]) -> usize {
        let mut cells = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                cells[i][j] = match (i, j) {
                    (0, n) | (n, 0) => n,
                    (i, j) => {
                        let replaced = cells[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                        let mut least = replaced.min(cells[i - 1][j] + 1).min(cells[i][j - 1] + 1);
                        if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                            least = least.min(cells[i - 2][j - 2] + 1);
                        }
                        least
                    }
                };
            }
        }
        cells[a.len()][b.len()]
    }

    /// Every word of up to this length from three letters.
    fn words(length: usize) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut from = 0;
        for _ in 0..length {
            let to = words.len();
            for n in from..to {
                words.extend(["a", "b", "c"].map(|letter| words[n].clone() + letter));
            }
            from = to;
        }
        words
    }

    #[test]
    fn the_part_of_the_table_says_the_same_as_the_whole() {
        for a in words(4) {
            for b in words(4) {
                let whole = table(a.as_bytes(), b.as_bytes());
                for most in 0..5 {
                    let expected = (whole <= most).then_some(whole);
                    assert_eq!(distance(&a, &b, most), expected, "{a:?} {b:?} {most}");
                }
            }
        }
    }

    #[test]
    fn a_search_among_very_many_names_ends_and_one_among_ten_thousand_finds_what_was_meant() {
        let names = |count: usize| {
            (0..count)
                .map(|n| format!("server{}__do_something_useful_{n:06}", n % 7))
                .collect::<Vec<_>>()
        };
        let mut known = names(10_000);
        known.push("files__read_text_file".into());
        let mut search = Search::new("files__raed_txt_file");
        let meant = search.among(known.iter().map(String::as_str));
        assert_eq!(meant, Some("files__read_text_file"));
        assert!(search.work < WORK_LIMIT, "{}", search.work);
        let known = names(100_000);
        // As long as they are, and nothing like them.
        let mut search = Search::new("xerverx__qo_qomething_qseful_q00000");
        let longest_step = 40 * 40;
        search.among(known.iter().map(String::as_str));
        assert!(search.work < WORK_LIMIT + longest_step, "{}", search.work);
    }
}
