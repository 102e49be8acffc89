//! Machines with a fault, and the proof that the walk finds each.
//!
//! The faults are put between the walk and a healthy machine: an input is swallowed or forged, an effect dropped or
//! doubled, a memory put back, a deadline hidden. The machine's own code knows nothing of them.

mod fault;

pub(super) use fault::Fault;

use crate::deadline::Deadline;
use crate::effect::Effect;
use crate::input::Input;
use crate::machine::Machine;
use crate::policy::Policy;
use crate::time::{Generation, Moment};
use crate::walk::broken::Violation;
use crate::walk::policies;
use crate::walk::search::{Tour, walk};
use crate::walk::world::Pace;

/// The machine as the walk meets it: healthy, or with one fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject(Option<Fault>);

impl Subject {
    pub(super) const HEALTHY: Self = Self(None);

    pub(super) fn handle(
        self,
        machine: &mut Machine,
        input: Input,
        now: Moment,
        fresh: Generation,
    ) -> Vec<Effect> {
        match self.0 {
            Some(fault) => fault.handle(machine, input, now, fresh),
            None => machine.handle(input, now, fresh).0,
        }
    }

    pub(super) fn resumed(self, policy: Policy, at: Moment) -> Machine {
        let machine = Machine::resumed(policy, at);
        match self.0 {
            Some(fault) => fault.resume(machine),
            None => machine,
        }
    }

    pub(super) fn deadline(self, machine: &Machine, now: Moment) -> Option<Deadline> {
        match self.0 {
            Some(fault) => fault.deadline(machine, now),
            None => machine.deadline(),
        }
    }
}

/// Each fault, and the promise by which the walk finds it.
const FOUND_BY: [(Fault, Violation); 93] = [
    (Fault::AcceptsStaleReports, Violation::StaleReportMattered),
    (Fault::AcceptsAStaleClose, Violation::StaleReportMattered),
    (Fault::CountsNoStaleReport, Violation::StaleReportMattered),
    (Fault::ForgetsToClose, Violation::CloseMissing),
    (Fault::ClosesTwice, Violation::CloseUndue),
    (Fault::CutsInsteadOfDraining, Violation::CloseManner),
    (Fault::DrainsOnAgainstAWish, Violation::DrainOutlivesWish),
    (Fault::CutsTheIdle, Violation::CloseManner),
    (Fault::AbandonsInSilence, Violation::OpenedBesideOld),
    (Fault::AbandonsAtOnce, Violation::AbandonUndue),
    (Fault::ForgetsTheCloseDeadline, Violation::DeadlineMissing),
    (Fault::ForgetsTheTurn, Violation::DeadlineMissing),
    (Fault::ForgetsTheOpenDeadline, Violation::DeadlineMissing),
    (Fault::ForgetsTheListDeadline, Violation::DeadlineMissing),
    (Fault::ForgetsTheRelist, Violation::DeadlineMissing),
    (Fault::ForgetsTheStart, Violation::NeverConnects),
    (Fault::ForgetsTheExpiry, Violation::DeadlineMissing),
    (Fault::ForgetsTheProof, Violation::DeadlineMissing),
    (Fault::ForgetsTheSlowProbe, Violation::DeadlineMissing),
    (Fault::ForgetsTheSilence, Violation::DeadlineMissing),
    (Fault::ForgetsTheAnswer, Violation::DeadlineMissing),
    (Fault::ForgetsTheIdleness, Violation::DeadlineMissing),
    (Fault::OpensWhileClosing, Violation::OpenedBesideOld),
    (Fault::OpensTwice, Violation::GenerationReused),
    (Fault::ReusesTheGeneration, Violation::GenerationReused),
    (Fault::NeverTakesAToken, Violation::BucketIgnored),
    (Fault::KeepsTheTokenOfWork, Violation::BucketIgnored),
    (Fault::GivesATokenForEachCall, Violation::BucketIgnored),
    (Fault::GivesATokenOnConnect, Violation::BucketIgnored),
    (Fault::GivesATokenForAStableTime, Violation::BucketIgnored),
    (Fault::SkipsTheBackoff, Violation::OpenedTooSoon),
    (Fault::KeepsRunningWhenDisabled, Violation::WishIgnored),
    (Fault::DialsAfterADisable, Violation::WishIgnored),
    (Fault::DialsOnADisable, Violation::OpenedUnwanted),
    (Fault::PollsWhileDisabling, Violation::NeverDisabled),
    (Fault::RenewsTheBudgetOnConnect, Violation::FailuresMiscounted),
    (Fault::CountsAProvenLoss, Violation::FailuresMiscounted),
    (Fault::NeverSpendsTheBudget, Violation::FailuresMiscounted),
    (Fault::LetsALoginCostBudget, Violation::FailuresMiscounted),
    (Fault::KeepsTheBudgetOnRestart, Violation::FailuresMiscounted),
    (Fault::KeepsTheBucketOnRestart, Violation::BucketIgnored),
    (Fault::BelievesNoCall, Violation::ProofMisjudged),
    (Fault::RetriesWhatNeedsALogin, Violation::FailuresMiscounted),
    (Fault::RetriesWhatNobodyMends, Violation::FailuresMiscounted),
    (Fault::ForgetsALoginWhileDialling, Violation::LossMisjudged),
    (Fault::KeepsALoginForLater, Violation::LossMisjudged),
    (Fault::IgnoresRetryAfter, Violation::LossMisjudged),
    (Fault::GrantsAnyPause, Violation::LossMisjudged),
    (Fault::BlamesACallForAPause, Violation::HoldMistold),
    (Fault::PausesBeforeTheOtherWay, Violation::LossMisjudged),
    (Fault::IgnoresTheLoginOfACall, Violation::CloseMissing),
    (Fault::BlamesTheServerForALack, Violation::FailuresMiscounted),
    (Fault::BlamesTheServerForItsTurn, Violation::FailuresMiscounted),
    (Fault::KeepsTheTokenOfALack, Violation::BucketIgnored),
    (Fault::ForgetsTheFirstStartOfALack, Violation::BucketIgnored),
    (Fault::HasNoPauseAfterALack, Violation::LossMisjudged),
    (Fault::CountsAListingOfALack, Violation::HealthMiscounted),
    (Fault::CountsAListingOfAPause, Violation::HealthMiscounted),
    (Fault::TimesAStartFromItsQueue, Violation::GenerationsDiffer),
    (Fault::ListsBeforeItsTime, Violation::ListingUndue),
    (Fault::HasNoDoubts, Violation::DoubtIgnored),
    (Fault::IgnoresChangesWhileListing, Violation::ListingForgotten),
    (Fault::ListsAnOldGeneration, Violation::GenerationsDiffer),
    (Fault::TrustsAnEmptyListing, Violation::ListingForgotten),
    (Fault::ListsEveryChangeAtOnce, Violation::ListingUndue),
    (Fault::LetsAListingClearCalls, Violation::HealthMiscounted),
    (Fault::LetsACallClearListings, Violation::HealthMiscounted),
    (Fault::ProbesTheBusy, Violation::ProbeUndue),
    (Fault::CountsMissesOfTheBusy, Violation::ProbeUndue),
    (Fault::StopsTheBusy, Violation::CloseUndue),
    (Fault::NeverProbes, Violation::SilenceUnnoticed),
    (Fault::SparesTheStopped, Violation::SilenceUnnoticed),
    (Fault::NeverStops, Violation::IdlenessUnnoticed),
    (Fault::SleepsThroughAStart, Violation::DialStalled),
    (Fault::ResumesForFree, Violation::BucketIgnored),
    (Fault::SleepsThroughARelist, Violation::DeadlineStuck),
    (Fault::SleepsThroughAnExpiry, Violation::DeadlineStuck),
    (Fault::IgnoresTheTimeToLive, Violation::ListingForgotten),
    (Fault::ExpiresAtOnce, Violation::ListingForgotten),
    (Fault::RestartsAgainstThePolicy, Violation::LossMisjudged),
    (Fault::IgnoresADemandWhenLost, Violation::NeverConnects),
    (Fault::IgnoresRetryAfterOnDemand, Violation::OpenedTooSoon),
    (Fault::IgnoresARestartWhenFailed, Violation::NeverConnects),
    (Fault::IgnoresARestartWhenIdle, Violation::RestartWaits),
    (Fault::IgnoresAnEnableWhileDisabling, Violation::WishIgnored),
    (Fault::DialsTheDormant, Violation::OpenedUnasked),
    (Fault::IgnoresAReturn, Violation::ReturnIgnored),
    (Fault::AwaitsNoReturn, Violation::ReturnIgnored),
    (Fault::BelievesAnyReturn, Violation::StaleReportMattered),
    (Fault::RenewsTheBudgetOnReturn, Violation::FailuresMiscounted),
    (Fault::TellsNoTransition, Violation::CatalogMistold),
    (Fault::TellsAWrongOrigin, Violation::TransitionUntold),
    (Fault::KeepsTheCatalog, Violation::CatalogMistold),
];

/// The same for faults of a replacement, which is walked on a tour of its own.
const FOUND_BY_REPLACING: [(Fault, Violation); 5] = [
    (Fault::WaitsForTheReplaced, Violation::GenerationsDiffer),
    (Fault::ReplacesAProcessBeside, Violation::OpenedBesideOld),
    (Fault::DrainsAnyNumber, Violation::TwoDrain),
    (Fault::DrainsOnAgainstAWish, Violation::DrainOutlivesWish),
    (Fault::RestsWhileItDrains, Violation::WishIgnored),
];

#[test]
fn the_walk_finds_every_fault() {
    let tours = [
        tour(policies::strict()),
        tour(policies::resting()),
        tour(policies::patient()),
    ];
    find(&FOUND_BY, &tours);
}

#[test]
fn the_walk_finds_every_fault_of_a_replacement() {
    let replacing = Tour {
        generations: 3,
        beside: true,
        ttl: false,
        ..tour(policies::strict())
    };
    find(&FOUND_BY_REPLACING, &[replacing]);
}

fn tour(policy: Policy) -> Tour {
    Tour {
        name: "mutant",
        policies: vec![policy],
        generations: 4,
        pace: Pace::Deadlines,
        ttl: true,
        beside: false,
    }
}

fn find(faults: &[(Fault, Violation)], tours: &[Tour]) {
    let mut wrong = Vec::new();
    for &(fault, expected) in faults {
        let found = tours
            .iter()
            .find_map(|tour| walk(tour, Subject(Some(fault))).err());
        let broken = found.as_ref().map(|breach| breach.broken);
        let steps = found.map_or(0, |breach| breach.trail.len());
        println!("{fault:?}: {broken:?} after {steps} steps");
        if broken != Some(expected) {
            wrong.push((fault, broken));
        }
    }
    assert!(wrong.is_empty(), "not found, or by another promise: {wrong:?}");
}
