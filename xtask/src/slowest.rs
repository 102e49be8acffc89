//! The slowest tests of a run, read from the report that nextest writes in JUnit's format.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const SHOWN: usize = 10;

/// Prints the slowest tests of the report.
pub(crate) fn print(report: &Path) -> Result<()> {
    let text = fs::read_to_string(report).with_context(|| format!("cannot read {}", report.display()))?;
    println!("the slowest tests:");
    for (seconds, name) in slowest(&text) {
        println!("{seconds:>8.1} s  {name}");
    }
    Ok(())
}

fn slowest(report: &str) -> Vec<(f64, String)> {
    let mut tests: Vec<_> = report.split("<testcase ").skip(1).filter_map(test).collect();
    tests.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    tests.truncate(SHOWN);
    tests
}

/// The duration and the name in the attributes of a `testcase`.
fn test(element: &str) -> Option<(f64, String)> {
    let attributes = element.split('>').next()?;
    let seconds = attribute(attributes, "time")?.parse().ok()?;
    let name = format!(
        "{} {}",
        attribute(attributes, "classname")?,
        attribute(attributes, "name")?
    );
    Some((seconds, name))
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    // Each is preceded by a space or begins the element: `name` is also the end of `classname`.
    let start = format!("{name}=\"");
    let from = match attributes.strip_prefix(&start) {
        Some(rest) => rest,
        None => attributes.split_once(&format!(" {start}"))?.1,
    };
    from.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::slowest;

    #[test]
    fn the_slowest_tests_come_first_with_their_crates() {
        let report = r#"<testsuite name="a"><testcase name="x::quick" classname="a" timestamp="t" time="0.5">
            </testcase><testcase name="x::slow" classname="a::b" timestamp="t" time="12.25"/></testsuite>"#;
        let expected = [(12.25, "a::b x::slow".to_owned()), (0.5, "a x::quick".to_owned())];
        assert_eq!(slowest(report), expected);
    }

    #[test]
    fn ten_tests_are_shown() {
        let test = r#"<testcase name="x" classname="a" time="1"/>"#;
        assert_eq!(slowest(&test.repeat(11)).len(), 10);
    }
}
