//! Why a request failed, in the form of RFC 9457.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request failed: what is wrong, where, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiProblem {
    /// The kind of problem, for programs.
    pub kind: ProblemKind,
    /// What is wrong, in one line.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What the problem is about: a server, a file with its line, a parameter.
    #[serde(rename = "where")]
    #[schema(value_type = Option<String>)]
    pub place: Option<Box<str>>,
    /// What a person can do about it.
    pub remedy: Option<String>,
    /// Names that are close to an unknown one, the nearest first.
    #[serde(default)]
    pub nearest: Vec<String>,
    /// What is wrong with the configuration, where that is the reason.
    #[serde(default)]
    pub problems: Vec<super::ConfigProblem>,
}

/// The kind of an [`ApiProblem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// There is no such path, or no such version of the API.
    NotFound,
    /// There is no server of this name.
    UnknownServer,
    /// The path does not have this method.
    MethodNotAllowed,
    /// The request cannot be read.
    BadRequest,
    /// The body is too long.
    TooLarge,
    /// The request took too long.
    TimedOut,
    /// The server's state does not allow it.
    Conflict,
    /// A configuration has errors, and was not applied.
    InvalidConfiguration,
    /// This program cannot do that.
    NotSupported,
    /// Too many requests or watchers.
    TooMany,
    /// The request is not allowed: token, host or origin.
    Refused,
    /// The program failed.
    Internal,
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

impl ProblemKind {
    /// The HTTP status of this kind.
    pub const fn status(self) -> u16 {
        match self {
            Self::NotFound | Self::UnknownServer => 404,
            Self::MethodNotAllowed => 405,
            Self::BadRequest => 400,
            Self::TooLarge => 413,
            Self::TimedOut => 408,
            Self::Conflict => 409,
            Self::InvalidConfiguration => 422,
            Self::NotSupported => 501,
            Self::TooMany => 429,
            Self::Refused => 403,
            Self::Internal | Self::Unknown => 500,
        }
    }
}

impl ApiProblem {
    /// A problem of this kind.
    pub fn new(kind: ProblemKind, title: impl Into<String>) -> Self {
        Self {
            kind,
            title: title.into(),
            status: kind.status(),
            place: None,
            remedy: None,
            nearest: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// For what this program cannot do.
    pub fn not_supported(title: impl Into<String>) -> Self {
        Self::new(ProblemKind::NotSupported, title)
    }

    /// Says what the problem is about.
    #[must_use]
    pub fn at(mut self, place: impl Into<Box<str>>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Says what a person can do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds what is wrong with the configuration.
    #[must_use]
    pub fn problems(mut self, problems: Vec<super::ConfigProblem>) -> Self {
        self.problems = problems;
        self
    }
}

/// Reads as `there is no server fils: did you mean files?`.
impl fmt::Display for ApiProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        match &self.remedy {
            Some(remedy) => write!(f, ": {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ApiProblem {}
