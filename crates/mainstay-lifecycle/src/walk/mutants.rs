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
use crate::walk::broken::Broken;
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
const FOUND_BY: [(Fault, Broken); 93] = [
    (Fault::AcceptsStaleReports, Broken::StaleReportMattered),
    (Fault::AcceptsAStaleClose, Broken::StaleReportMattered),
    (Fault::CountsNoStaleReport, Broken::StaleReportMattered),
    (Fault::ForgetsToClose, Broken::CloseMissing),
    (Fault::ClosesTwice, Broken::CloseUndue),
    (Fault::CutsInsteadOfDraining, Broken::CloseManner),
    (Fault::DrainsOnAgainstAWish, Broken::DrainOutlivesWish),
    (Fault::CutsTheIdle, Broken::CloseManner),
    (Fault::AbandonsInSilence, Broken::OpenedBesideOld),
    (Fault::AbandonsAtOnce, Broken::AbandonUndue),
    (Fault::ForgetsTheCloseDeadline, Broken::DeadlineMissing),
    (Fault::ForgetsTheTurn, Broken::DeadlineMissing),
    (Fault::ForgetsTheOpenDeadline, Broken::DeadlineMissing),
    (Fault::ForgetsTheListDeadline, Broken::DeadlineMissing),
    (Fault::ForgetsTheRelist, Broken::DeadlineMissing),
    (Fault::ForgetsTheStart, Broken::NeverConnects),
    (Fault::ForgetsTheExpiry, Broken::DeadlineMissing),
    (Fault::ForgetsTheProof, Broken::DeadlineMissing),
    (Fault::ForgetsTheSlowProbe, Broken::DeadlineMissing),
    (Fault::ForgetsTheSilence, Broken::DeadlineMissing),
    (Fault::ForgetsTheAnswer, Broken::DeadlineMissing),
    (Fault::ForgetsTheIdleness, Broken::DeadlineMissing),
    (Fault::OpensWhileClosing, Broken::OpenedBesideOld),
    (Fault::OpensTwice, Broken::GenerationReused),
    (Fault::ReusesTheGeneration, Broken::GenerationReused),
    (Fault::NeverTakesAToken, Broken::BucketIgnored),
    (Fault::KeepsTheTokenOfWork, Broken::BucketIgnored),
    (Fault::GivesATokenForEachCall, Broken::BucketIgnored),
    (Fault::GivesATokenOnConnect, Broken::BucketIgnored),
    (Fault::GivesATokenForAStableTime, Broken::BucketIgnored),
    (Fault::SkipsTheBackoff, Broken::OpenedTooSoon),
    (Fault::KeepsRunningWhenDisabled, Broken::WishIgnored),
    (Fault::DialsAfterADisable, Broken::WishIgnored),
    (Fault::DialsOnADisable, Broken::OpenedUnwanted),
    (Fault::PollsWhileDisabling, Broken::NeverDisabled),
    (Fault::RenewsTheBudgetOnConnect, Broken::FailuresMiscounted),
    (Fault::CountsAProvenLoss, Broken::FailuresMiscounted),
    (Fault::NeverSpendsTheBudget, Broken::FailuresMiscounted),
    (Fault::LetsALoginCostBudget, Broken::FailuresMiscounted),
    (Fault::KeepsTheBudgetOnRestart, Broken::FailuresMiscounted),
    (Fault::KeepsTheBucketOnRestart, Broken::BucketIgnored),
    (Fault::BelievesNoCall, Broken::ProofMisjudged),
    (Fault::RetriesWhatNeedsALogin, Broken::FailuresMiscounted),
    (Fault::RetriesWhatNobodyMends, Broken::FailuresMiscounted),
    (Fault::ForgetsALoginWhileDialling, Broken::LossMisjudged),
    (Fault::KeepsALoginForLater, Broken::LossMisjudged),
    (Fault::IgnoresRetryAfter, Broken::LossMisjudged),
    (Fault::GrantsAnyPause, Broken::LossMisjudged),
    (Fault::BlamesACallForAPause, Broken::HoldMistold),
    (Fault::PausesBeforeTheOtherWay, Broken::LossMisjudged),
    (Fault::IgnoresTheLoginOfACall, Broken::CloseMissing),
    (Fault::BlamesTheServerForALack, Broken::FailuresMiscounted),
    (Fault::BlamesTheServerForItsTurn, Broken::FailuresMiscounted),
    (Fault::KeepsTheTokenOfALack, Broken::BucketIgnored),
    (Fault::ForgetsTheFirstStartOfALack, Broken::BucketIgnored),
    (Fault::HasNoPauseAfterALack, Broken::LossMisjudged),
    (Fault::CountsAListingOfALack, Broken::HealthMiscounted),
    (Fault::CountsAListingOfAPause, Broken::HealthMiscounted),
    (Fault::TimesAStartFromItsQueue, Broken::GenerationsDiffer),
    (Fault::ListsBeforeItsTime, Broken::ListingUndue),
    (Fault::HasNoDoubts, Broken::DoubtIgnored),
    (Fault::IgnoresChangesWhileListing, Broken::ListingForgotten),
    (Fault::ListsAnOldGeneration, Broken::GenerationsDiffer),
    (Fault::TrustsAnEmptyListing, Broken::ListingForgotten),
    (Fault::ListsEveryChangeAtOnce, Broken::ListingUndue),
    (Fault::LetsAListingClearCalls, Broken::HealthMiscounted),
    (Fault::LetsACallClearListings, Broken::HealthMiscounted),
    (Fault::ProbesTheBusy, Broken::ProbeUndue),
    (Fault::CountsMissesOfTheBusy, Broken::ProbeUndue),
    (Fault::StopsTheBusy, Broken::CloseUndue),
    (Fault::NeverProbes, Broken::SilenceUnnoticed),
    (Fault::SparesTheStopped, Broken::SilenceUnnoticed),
    (Fault::NeverStops, Broken::IdlenessUnnoticed),
    (Fault::SleepsThroughAStart, Broken::DialStalled),
    (Fault::ResumesForFree, Broken::BucketIgnored),
    (Fault::SleepsThroughARelist, Broken::DeadlineStuck),
    (Fault::SleepsThroughAnExpiry, Broken::DeadlineStuck),
    (Fault::IgnoresTheTimeToLive, Broken::ListingForgotten),
    (Fault::ExpiresAtOnce, Broken::ListingForgotten),
    (Fault::RestartsAgainstThePolicy, Broken::LossMisjudged),
    (Fault::IgnoresADemandWhenLost, Broken::NeverConnects),
    (Fault::IgnoresRetryAfterOnDemand, Broken::OpenedTooSoon),
    (Fault::IgnoresARestartWhenFailed, Broken::NeverConnects),
    (Fault::IgnoresARestartWhenIdle, Broken::RestartWaits),
    (Fault::IgnoresAnEnableWhileDisabling, Broken::WishIgnored),
    (Fault::DialsTheDormant, Broken::OpenedUnasked),
    (Fault::IgnoresAReturn, Broken::ReturnIgnored),
    (Fault::AwaitsNoReturn, Broken::ReturnIgnored),
    (Fault::BelievesAnyReturn, Broken::StaleReportMattered),
    (Fault::RenewsTheBudgetOnReturn, Broken::FailuresMiscounted),
    (Fault::TellsNoTransition, Broken::CatalogMistold),
    (Fault::TellsAWrongOrigin, Broken::TransitionUntold),
    (Fault::KeepsTheCatalog, Broken::CatalogMistold),
];

/// The same for faults of a replacement, which is walked on a tour of its own.
const FOUND_BY_REPLACING: [(Fault, Broken); 5] = [
    (Fault::WaitsForTheReplaced, Broken::GenerationsDiffer),
    (Fault::ReplacesAProcessBeside, Broken::OpenedBesideOld),
    (Fault::DrainsAnyNumber, Broken::TwoDrain),
    (Fault::DrainsOnAgainstAWish, Broken::DrainOutlivesWish),
    (Fault::RestsWhileItDrains, Broken::WishIgnored),
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

fn find(faults: &[(Fault, Broken)], tours: &[Tour]) {
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
