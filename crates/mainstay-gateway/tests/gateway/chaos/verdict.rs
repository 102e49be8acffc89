//! What a gateway owes its clients whatever happens behind it, held against what happened:
//!
//! - every request is answered, and by its time;
//! - no call that may have run is run again, and one that is said not to have run did not.
//!
//! That no session is lost, that lists are whole, that no client receives what is another's, that everything works again and that
//! nothing is left behind is seen elsewhere, as it happens.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use mainstay_testkit::chaos::Runs;

use crate::chaos::person::{Diary, SeenOutcome};

/// How much later than the machine itself an answer may be.
const SLACK: Duration = Duration::from_secs(1);

/// How often a task is woken on the way of a request and its answer, each as late as the machine is: the client and the
/// gateway when they connect, when they write and when they read, and the call at its deadline.
const WAKES: u32 = 5;

pub(crate) struct Evidence<D> {
    pub(crate) diaries: Vec<Diary>,
    /// What each server's processes did.
    pub(crate) ledgers: Vec<Vec<String>>,
    pub(crate) deeds: D,
    /// Questions, updates and changes of lists that clients received.
    pub(crate) received: [usize; 3],
    /// How late a task that only sleeps was woken at worst.
    pub(crate) machine_late: Duration,
}

impl<D: Debug> Evidence<D> {
    pub(crate) fn judge(&self) {
        self.print();
        self.every_answer_came_in_time();
        self.no_call_ran_more_often_than_its_caller_may_believe();
        let answered: usize = self.diaries.iter().map(|diary| diary.answered).sum();
        assert!(answered > 0, "no question was ever answered");
        assert!(
            self.received.iter().all(|&times| times > 0),
            "{:?}",
            self.received
        );
    }

    fn every_answer_came_in_time(&self) {
        let waits = self.diaries.iter().flat_map(|diary| &diary.waits);
        let late: Vec<_> = waits
            .filter(|wait| wait.took > wait.limit + WAKES * self.machine_late + SLACK)
            .collect();
        assert!(late.is_empty(), "{late:#?}");
    }

    fn no_call_ran_more_often_than_its_caller_may_believe(&self) {
        let runs = Runs::of(&self.ledgers);
        for call in self.diaries.iter().flat_map(|diary| &diary.calls) {
            let ran = runs.count(call.server, call.tool, &call.key);
            let allowed = match &call.outcome {
                SeenOutcome::Answer => 1..=call.most,
                SeenOutcome::NotThere => 0..=0,
                SeenOutcome::Failed(outcome) if outcome == "not_sent" || outcome == "refused" => {
                    0..=call.rounds - 1
                }
                SeenOutcome::Failed(_) | SeenOutcome::GivenUp => 0..=call.most,
            };
            assert!(allowed.contains(&ran), "ran {ran} times: {call:?}");
        }
    }

    fn print(&self) {
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for call in self.diaries.iter().flat_map(|diary| &diary.calls) {
            *outcomes.entry(format!("{:?}", call.outcome)).or_default() += 1;
        }
        println!("calls: {outcomes:?}");
        let waits = self.diaries.iter().flat_map(|diary| &diary.waits);
        if let Some(latest) = waits.max_by_key(|wait| wait.took.saturating_sub(wait.limit)) {
            println!(
                "latest answer, on a machine {:?} late: {} took {:?} of {:?}",
                self.machine_late, latest.what, latest.took, latest.limit
            );
        }
        let [questions, updates, changes] = self.received;
        println!("{questions} questions, {updates} updates and {changes} changes of lists were received");
        println!("deeds: {:?}", self.deeds);
    }
}
