//! The document of `mainstay doctor`.

use serde::Serialize;
use utoipa::ToSchema;

use super::DocumentVersion;
use crate::doctor::{Diagnosis, Examination};

/// Every check, and what it found.
#[derive(Serialize, ToSchema)]
pub(crate) struct DoctorDocument<'a> {
    version: DocumentVersion,
    /// Whether there is nothing to fix.
    ok: bool,
    checks: Vec<ExaminationDocument<'a>>,
}

/// One check.
#[derive(Serialize, ToSchema)]
struct ExaminationDocument<'a> {
    check: &'static str,
    ok: bool,
    summary: &'a str,
    findings: Vec<DiagnosisDocument<'a>>,
}

/// One thing that a check found.
#[derive(Serialize, ToSchema)]
struct DiagnosisDocument<'a> {
    /// `problem` or `hint`.
    level: &'static str,
    subject: &'a str,
    problem: &'a str,
    remedy: &'a str,
}

impl<'a> DoctorDocument<'a> {
    pub(crate) fn of(examinations: &'a [Examination]) -> Self {
        Self {
            version: DocumentVersion,
            ok: !examinations.iter().any(Examination::needs_fix),
            checks: examinations.iter().map(ExaminationDocument::of).collect(),
        }
    }
}

impl<'a> ExaminationDocument<'a> {
    fn of(examination: &'a Examination) -> Self {
        Self {
            check: examination.check,
            ok: !examination.needs_fix(),
            summary: &examination.summary,
            findings: examination.findings.iter().map(DiagnosisDocument::of).collect(),
        }
    }
}

impl<'a> DiagnosisDocument<'a> {
    fn of(finding: &'a Diagnosis) -> Self {
        Self {
            level: finding.level.as_str(),
            subject: &finding.subject,
            problem: &finding.problem,
            remedy: &finding.remedy,
        }
    }
}
