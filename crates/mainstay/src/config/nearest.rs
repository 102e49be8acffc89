//! Which known name a misspelt one was meant to be.

/// The known name nearest to `written`, if one is near enough to be meant; the first of equals.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let written = plain(written);
    // A third of the letters may be wrong: more than that and the guess would mislead.
    let tolerance = (written.len() / 3).max(1);
    known
        .into_iter()
        .filter_map(|key| {
            let candidate = plain(key);
            // The distance is at least the difference in length, so an absurdly long key costs nothing.
            if candidate.len().abs_diff(written.len()) > tolerance {
                return None;
            }
            let distance = distance(&written, &candidate);
            (distance <= tolerance).then_some((distance, key))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, key)| key)
}

/// Case and word separators are not what a person gets wrong.
fn plain(key: &str) -> Vec<char> {
    key.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// How many letters must be added, dropped, replaced or swapped with their neighbour to turn `a` into `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

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
    fn distance_counts_each_kind_of_slip_once() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for (a, b, expected) in [
            ("", "abc", 3),
            ("abc", "ac", 1),
            ("abc", "axc", 1),
            ("abc", "acb", 1),
            ("ab", "ab", 0),
        ] {
            assert_eq!(distance(&chars(a), &chars(b)), expected, "{a} {b}");
            assert_eq!(distance(&chars(b), &chars(a)), expected, "{b} {a}");
        }
    }
}
