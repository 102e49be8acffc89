//! How severe a log message is.

use mainstay::gateway::message::{Object, RawJson};

/// The levels of the protocol, least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const WORDS: [(&str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
        ("alert", Self::Alert),
        ("emergency", Self::Emergency),
    ];

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::WORDS
            .into_iter()
            .find_map(|(known, level)| (known == word).then_some(level))
    }

    /// The level as the protocol spells it.
    pub(crate) const fn word(self) -> &'static str {
        Self::WORDS[self as usize].0
    }

    /// The level of a log message. One that names none is let through everywhere.
    pub(crate) fn of_message(params: Option<&RawJson>) -> Self {
        params
            .and_then(Object::parse)
            .and_then(|params| params.get("level")?.parse::<String>().ok())
            .and_then(|word| Self::from_word(&word))
            .unwrap_or(Self::Emergency)
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn every_level_has_its_own_word() {
        for (word, level) in Level::WORDS {
            assert_eq!(level.word(), word);
            assert_eq!(Level::from_word(word), Some(level));
        }
    }
}
