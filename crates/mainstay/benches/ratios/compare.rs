//! Compares two sides by timing them in turn.
//!
//! Small batches alternate, so that other load on the machine affects both sides alike. The median leaves out batches that
//! were interrupted.

use std::time::{Duration, Instant};

/// What two sides took for one operation, over all batches.
pub(crate) struct RatioPair {
    base: Vec<f64>,
    ours: Vec<f64>,
}

impl RatioPair {
    pub(crate) fn new() -> Self {
        Self {
            base: Vec::new(),
            ours: Vec::new(),
        }
    }

    /// Times `rounds` batches of each side, in alternating order. The first round only warms up.
    pub(crate) async fn measure(
        rounds: usize,
        batch: u32,
        mut base: impl AsyncFnMut(),
        mut ours: impl AsyncFnMut(),
    ) -> Self {
        let mut pair = Self::new();
        for round in 0..=rounds {
            let (b, o) = if round % 2 == 0 {
                let b = timed(batch, &mut base).await;
                (b, timed(batch, &mut ours).await)
            } else {
                let o = timed(batch, &mut ours).await;
                (timed(batch, &mut base).await, o)
            };
            if round > 0 {
                pair.push(b, o);
            }
        }
        pair
    }

    /// Adds what one operation took on each side, in nanoseconds.
    pub(crate) fn push(&mut self, base: f64, ours: f64) {
        self.base.push(base);
        self.ours.push(ours);
    }

    /// The same for one of `count` operations that were timed as one.
    pub(crate) fn each_of(mut self, count: u32) -> Self {
        let times = self.base.iter_mut().chain(&mut self.ours);
        times.for_each(|time| *time /= f64::from(count));
        self
    }

    /// The median of each side.
    pub(crate) fn medians(&self) -> (f64, f64) {
        (
            median(self.base.iter().copied()),
            median(self.ours.iter().copied()),
        )
    }

    /// The median of what one side took over what the other took right before or after.
    pub(crate) fn ratio(&self) -> f64 {
        median(self.ours.iter().zip(&self.base).map(|(ours, base)| ours / base))
    }
}

async fn timed(batch: u32, work: &mut impl AsyncFnMut()) -> f64 {
    let started = Instant::now();
    for _ in 0..batch {
        work().await;
    }
    nanoseconds(started.elapsed()) / f64::from(batch)
}

pub(crate) fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
