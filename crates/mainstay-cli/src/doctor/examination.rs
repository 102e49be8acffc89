//! What a check found.

/// One check: what it looked at, and what it found.
#[derive(Debug)]
pub(crate) struct Examination {
    /// The name of the check.
    pub(crate) check: &'static str,
    /// What it looked at, for a person.
    pub(crate) summary: String,
    pub(crate) findings: Vec<Diagnosis>,
}

/// One thing that is wrong, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    pub(crate) level: DiagnosisLevel,
    /// The server, file, process or setting that it concerns.
    pub(crate) subject: String,
    pub(crate) problem: String,
    pub(crate) remedy: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiagnosisLevel {
    /// Something does not work until a person acts. The exit code is 1.
    Problem,
    /// Everything works; a person may want to know.
    Hint,
}

impl DiagnosisLevel {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Hint => "hint",
        }
    }
}

impl Examination {
    pub(crate) fn new(check: &'static str, summary: impl Into<String>) -> Self {
        Self {
            check,
            summary: summary.into(),
            findings: Vec::new(),
        }
    }

    /// Adds something that does not work.
    pub(crate) fn problem(
        &mut self,
        subject: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(
            DiagnosisLevel::Problem,
            subject.into(),
            problem.into(),
            remedy.into(),
        );
    }

    /// Adds something that a person may want to know.
    pub(crate) fn hint(
        &mut self,
        subject: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(
            DiagnosisLevel::Hint,
            subject.into(),
            problem.into(),
            remedy.into(),
        );
    }

    fn add(&mut self, level: DiagnosisLevel, subject: String, problem: String, remedy: String) {
        self.findings.push(Diagnosis {
            level,
            subject,
            problem,
            remedy,
        });
    }

    /// Whether a person must act.
    pub(crate) fn needs_fix(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.level == DiagnosisLevel::Problem)
    }
}
