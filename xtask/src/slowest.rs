//! The slowest tests of a run, read from the report that nextest writes in JUnit's format.

use std::fs;
use std::path::Path;

const SHOWN: usize = 10;

/// Runs the tests and prints the slowest, if this run wrote the report. How the tests ended is returned in any case.
pub(crate) fn print_after<T>(report: &Path, run_tests: impl FnOnce() -> T) -> T {
    // The report of an earlier run would pass for this one's. There may be none.
    let _ = fs::remove_file(report);
    let end = run_tests();
    match fs::read_to_string(report) {
        Ok(text) => {
            println!("the slowest tests:");
            for (seconds, name) in slowest(&text) {
                println!("{seconds:>8.1} s  {name}");
            }
        }
        Err(error) => println!("the slowest tests are unknown: {}: {error}", report.display()),
    }
    end
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
    use super::{print_after, slowest};

    #[test]
    fn a_run_that_writes_no_report_keeps_its_end_and_shows_no_older_report() {
        let directory = tempfile::tempdir().unwrap();
        let report = directory.path().join("junit.xml");
        std::fs::write(&report, "of an earlier run").unwrap();
        let end = print_after(&report, || (report.exists(), "the build failed"));
        assert_eq!(end, (false, "the build failed"));
        assert!(!report.exists());
    }

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
