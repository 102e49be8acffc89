//! The examinations as a person reads them.

use super::examination::{DiagnosisLevel, Examination};
use crate::output::{Ink, Paint, Text, count, plain, text, width};

/// Where the summaries begin: behind the longest name of a check.
const SUMMARY_COLUMN: usize = 18;

pub(super) fn text(examinations: &[Examination], paint: Paint) -> Text {
    let mut shown = Text::default();
    for examination in examinations {
        let mark = if examination.needs_fix() {
            paint.ink(Ink::Red, "✘")
        } else if examination.findings.is_empty() {
            paint.ink(Ink::Green, "✔")
        } else {
            paint.ink(Ink::Yellow, "!")
        };
        let pad = Text::spaces(SUMMARY_COLUMN.saturating_sub(width(examination.check)));
        let summary = paint.dim(plain(&examination.summary));
        shown.push_line(text!("{} {}{}{}", mark, examination.check, pad, summary));
        for finding in &examination.findings {
            let ink = match finding.level {
                DiagnosisLevel::Problem => Ink::Red,
                DiagnosisLevel::Hint => Ink::Yellow,
            };
            let subject = paint.ink(ink, plain(&finding.subject));
            shown.push_line(text!("    {}: {}", subject, plain(&finding.problem)));
            shown.push_line(text!("      → {}", plain(&finding.remedy)));
        }
    }
    let findings = examinations.iter().flat_map(|examination| &examination.findings);
    let problems = findings
        .filter(|finding| finding.level == DiagnosisLevel::Problem)
        .count();
    let verdict = match problems {
        0 => paint.ink(Ink::Green, "nothing to fix"),
        problems => text!("{} to fix", count(problems, "problem")),
    };
    shown.push_line(text!("\n{}", verdict));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_and_hints_stand_below_their_check_with_what_to_do() {
        let well = Examination::new("runtimes", "none needed");
        let mut commands = Examination::new("commands", "2 looked up");
        commands.problem("web", "the program \"npx\" is not in PATH", "install Node.js");
        commands.problem("no\u{1b}[2Jtes", "it cannot be run", "chmod +x");
        let mut hosts = Examination::new("hosts", "1 looked at");
        hosts.hint(
            "Cursor",
            "it starts an older Mainstay",
            "`mainstay import --rewrite`",
        );
        let shown = text(&[well, commands, hosts], Paint::PLAIN);
        let expected = "\
✔ runtimes          none needed
✘ commands          2 looked up
    web: the program \"npx\" is not in PATH
      → install Node.js
    notes: it cannot be run
      → chmod +x
! hosts             1 looked at
    Cursor: it starts an older Mainstay
      → `mainstay import --rewrite`

2 problems to fix
";
        assert_eq!(shown.as_str(), expected, "\n{}", shown.as_str());

        let well = [Examination::new("port", "127.0.0.1:7332 is free")];
        let expected = "✔ port              127.0.0.1:7332 is free\n\nnothing to fix\n";
        assert_eq!(text(&well, Paint::PLAIN).as_str(), expected);
    }
}
