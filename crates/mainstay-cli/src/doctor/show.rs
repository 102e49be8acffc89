//! The examinations as a person reads them.

use super::examination::{DiagnosisLevel, Examination};
use crate::output::{Ink, Screen, Text, count, plain, text, width};

/// Where the summaries begin: behind the longest name of a check.
const SUMMARY_COLUMN: usize = 15;

pub(super) fn text(examinations: &[Examination], screen: &Screen) -> Text {
    let paint = screen.out;
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
