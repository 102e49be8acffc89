//! What was measured of a server.

use std::time::Duration;

/// What was measured of a server.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// From the start to the end of the first listing; `None` where it did not come up.
    pub(crate) connected: Option<Duration>,
    /// How often it was to be asked.
    pub(crate) asked: u32,
    /// How long each answer took, or why there is none.
    pub(crate) pings: Vec<Result<Duration, String>>,
}

/// The figures of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) min: Duration,
    pub(crate) median: Duration,
    pub(crate) max: Duration,
}

impl Measured {
    pub(crate) fn answered(&self) -> usize {
        self.pings.iter().filter(|ping| ping.is_ok()).count()
    }

    /// Whether it came up and left no question without an answer.
    pub(crate) fn is_alive(&self) -> bool {
        self.connected.is_some() && self.answered() == self.asked as usize
    }

    /// Of the answers there are; `None` where there is none.
    pub(crate) fn figures(&self) -> Option<Figures> {
        let mut times: Vec<Duration> = self.pings.iter().flatten().copied().collect();
        times.sort_unstable();
        let (min, max) = (*times.first()?, *times.last()?);
        let (below, above) = (times[(times.len() - 1) / 2], times[times.len() / 2]);
        Some(Figures {
            min,
            median: (below + above) / 2,
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(pings: &[Option<u64>]) -> Measured {
        let ping = |ms: &Option<u64>| {
            ms.map(Duration::from_millis)
                .ok_or_else(|| "no answer".to_owned())
        };
        Measured {
            connected: Some(Duration::ZERO),
            asked: u32::try_from(pings.len()).unwrap(),
            pings: pings.iter().map(ping).collect(),
        }
    }

    #[test]
    fn the_median_stands_in_the_middle_and_misses_count_for_nothing() {
        for (pings, expected) in [
            (&[Some(9), Some(1), Some(2)][..], [1, 2, 9]),
            (&[Some(4), Some(2)], [2, 3, 4]),
            (&[None, Some(7), None], [7, 7, 7]),
        ] {
            let [min, median, max] = expected.map(Duration::from_millis);
            assert_eq!(
                measured(pings).figures(),
                Some(Figures { min, median, max }),
                "{pings:?}"
            );
        }
        assert_eq!(measured(&[None]).figures(), None);
    }

    #[test]
    fn only_a_server_that_answers_every_time_is_alive() {
        assert!(measured(&[Some(1), Some(2)]).is_alive());
        assert!(!measured(&[Some(1), None]).is_alive());
        let abort = Measured {
            asked: 2,
            ..measured(&[Some(1)])
        };
        assert!(!abort.is_alive());
        assert!(!Measured::default().is_alive());
    }
}
