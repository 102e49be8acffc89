//! One node of the exploration: a machine, the trace of what it did, and every event that can come next.
//!
//! After each step all moments are shifted so that the time is always `NOW`: states that differ only by the time of day
//! are the same node. One nanosecond is the tick of the small policies, so pauses and their jitter are small whole numbers.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::effect::{Effect, Transition};
use crate::explore::invariants::{self, Violation, ensure};
use crate::explore::search::SearchScope;
use crate::explore::trace::Trace;
use crate::input::{Input, Listing, OtherCalls, Recovery, Vitals};
use crate::machine::Machine;
use crate::policy::Policy;
use crate::state::{Attempt, DisconnectReason, ListingPhase, OpenConnection, SilenceWatch, State};
use crate::time::{Generation, Moment};

/// The moment at which every step starts.
pub(super) const NOW: Moment = Moment::new(Duration::from_nanos(10_000));

const TICK: Duration = Duration::from_nanos(1);

/// Longer than any deadline of the small policies, as after a laptop's sleep: all of them expire at once.
const SLEEP: Duration = Duration::from_nanos(5_000);

/// How many old generations still report: all that an exhaustive scope has.
const OLD_GENERATIONS_LIMIT: u64 = 5;

/// The pause that a server asks for: longer than the policies grant.
const RETRY_AFTER: Duration = Duration::from_nanos(7);

/// How long the server waits after its keeper failed.
const RESUME_PAUSE: Duration = Duration::from_nanos(3);

/// The time to live that a server gives its lists.
const TTL: Duration = Duration::from_nanos(4);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Simulation {
    pub(super) machine: Machine,
    pub(super) trace: Trace,
}

/// Hashes only what tells most nodes apart, because the exploration spends its time here.
impl Hash for Simulation {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.machine.state.hash(hasher);
        self.machine.closing.hash(hasher);
        self.machine.draining.hash(hasher);
        self.machine.tokens.hash(hasher);
        self.machine.failures.hash(hasher);
        self.trace.opened.hash(hasher);
    }
}

/// An input, and the time since the last one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TimedInput {
    pub(super) after: Duration,
    pub(super) input: Input,
}

/// When an input can come between two deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Right after the last input, or at the next deadline.
    Deadlines,
    /// At any tick.
    Ticks,
}

/// A step that kept every invariant.
pub(super) struct StepOutcome {
    pub(super) next: Simulation,
    pub(super) transitions: Vec<Transition>,
}

impl Simulation {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            machine: Machine::new(policy),
            trace: Trace::new(NOW),
        }
    }

    /// A server whose keeper failed, and starts again after a pause.
    pub(super) fn resumed(policy: Policy) -> Self {
        Self {
            machine: Machine::resumed(policy, NOW + RESUME_PAUSE),
            trace: Trace::resumed(NOW),
        }
    }

    /// Gives the machine one event and checks every invariant.
    pub(super) fn step(&self, event: &TimedInput) -> Result<StepOutcome, Violation> {
        let (now, input) = (NOW + event.after, &event.input);
        let before = &self.machine;
        let mut next = self.clone();
        let effects = next.machine.handle(input.clone(), now, self.trace.fresh()).0;
        let policy = &next.machine.policy;
        let expected = next.trace.note_input(input, before.state.kind(), now, policy);
        next.trace.note_effects(&effects, input, expected, now, policy)?;
        invariants::transitions_are_reported(before, &effects, &next.machine)?;
        invariants::dials_are_asked_for(&before.state, input, &next, now)?;
        invariants::failures_are_counted(self, &mut next, expected)?;
        invariants::losses_are_judged(self, &next, expected, now)?;
        invariants::state_follows_the_trace(&next, now)?;
        invariants::listings_have_a_reason(self, input, &effects, now)?;
        invariants::waits_have_deadlines(&next, input, now)?;
        next.shift(event.after);
        Ok(StepOutcome {
            next,
            transitions: effects.iter().filter_map(transition).collect(),
        })
    }

    /// Gives the machine every report of every old generation, and a timer before its deadline: none may change anything.
    /// Returns how many inputs that were.
    pub(super) fn check_stale_inputs(&self) -> Result<u64, Violation> {
        let (current, fresh) = (self.trace.generation(), self.trace.fresh());
        let closes: Vec<_> = self.closes().collect();
        let mut checked = 0;
        let old = 1.max(fresh.0.saturating_sub(OLD_GENERATIONS_LIMIT))..=fresh.0;
        for generation in old.map(Generation).filter(|old| current != Some(*old)) {
            let close = (!closes.contains(&generation)).then_some(Input::Closed(generation));
            let absent = self.machine.unreachable() == Some(generation);
            let back = (!absent).then_some(Input::Reachable(generation));
            for report in reports(generation).into_iter().chain(close).chain(back) {
                checked += 1;
                self.is_unchanged_by(report, &[Effect::CountStale(generation)])?;
            }
        }
        if self.machine.deadline().is_none_or(|deadline| deadline.at > NOW) {
            checked += 1;
            self.is_unchanged_by(Input::Timer(Vitals::default()), &[])?;
        }
        Ok(checked)
    }

    fn is_unchanged_by(&self, input: Input, expected: &[Effect]) -> Result<(), Violation> {
        let mut machine = self.machine.clone();
        let effects = machine.handle(input, NOW, self.trace.fresh()).0;
        let is_unchanged = effects == expected && machine == self.machine;
        ensure(is_unchanged, Violation::StaleInputCounted)
    }

    /// Every event that can come next in this scope.
    pub(super) fn events(&self, scope: &SearchScope) -> Vec<TimedInput> {
        let &SearchScope {
            pace,
            ttl,
            beside,
            refusals,
            ..
        } = scope;
        let mut events: Vec<TimedInput> = commands(beside).map(TimedInput::at_once).collect();
        let adjusted = scope
            .policies
            .iter()
            .filter(|policy| **policy != self.machine.policy);
        events.extend(adjusted.map(|policy| TimedInput::at_once(Input::Adjust(Box::new(policy.clone())))));
        if let Some(current) = self.trace.generation() {
            let said = Listing::Good { ttl: Some(TTL) };
            let reports = reports(current).into_iter();
            let probes = self.machine.policy.probe.is_some();
            let reports = reports.filter(|report| match report {
                Input::Listed(_, Listing::Refused) | Input::ListFailed(_, _, ANSWERED) => refusals,
                Input::Listed(_, listing) => ttl || *listing != said,
                Input::Retired(..) => beside,
                Input::CallFailed(_, Recovery::Retry, YOUNGER_CALLS_THAT_FINISH) => beside,
                // Without probes it makes no difference.
                Input::CallFailed(_, Recovery::Retry, OLDER_CALLS) => probes,
                _ => true,
            });
            events.extend(reports.map(TimedInput::at_once));
        }
        for closing in self.closes() {
            events.push(TimedInput::at_once(Input::Closed(closing)));
        }
        if let Some(absent) = self.machine.unreachable() {
            events.push(TimedInput::at_once(Input::Reachable(absent)));
        }
        for after in self.pauses(pace) {
            let activities = match &self.machine.state {
                State::Connected(_) => &ACTIVITIES[..],
                State::Connecting {
                    attempt: Attempt::Listing(_),
                    ..
                } => &UNLISTED_ACTIVITIES[..],
                _ => &ACTIVITIES[1..2],
            };
            events.extend(
                activities
                    .iter()
                    .map(|activity| TimedInput::timer(after, *activity)),
            );
        }
        events
    }

    /// The connections that are being closed.
    fn closes(&self) -> impl Iterator<Item = Generation> {
        self.machine.closing().into_iter().chain(self.machine.draining())
    }

    /// How long no input may come: until the deadline, or far beyond it. Without a deadline: until a token came back.
    fn pauses(&self, pace: Pace) -> Vec<Duration> {
        match self.machine.deadline() {
            Some(deadline) => {
                let until = deadline.at.since(NOW);
                let tick = (pace == Pace::Ticks && TICK < until).then_some(TICK);
                [until, SLEEP].into_iter().chain(tick).collect()
            }
            None => vec![self.machine.policy.bucket.refill_every],
        }
    }

    fn shift(&mut self, by: Duration) {
        let shift = |at: Moment| Moment::new(at.since_origin().saturating_sub(by));
        self.trace.shift(&shift, NOW);
        let machine = &mut self.machine;
        machine.tokens.shift(&shift);
        for closing in machine.closing.iter_mut().chain(&mut machine.draining) {
            closing.by = shift(closing.by);
        }
        match &mut machine.state {
            State::Connecting { attempt, .. } => match attempt {
                Attempt::Pausing(at, _) => *at = shift(*at).max(NOW),
                Attempt::Queued(_, by) | Attempt::Opening(_, by) => *by = shift(*by),
                Attempt::Listing(open) => shift_open(open, &shift),
            },
            State::Connected(live) => {
                live.proven_at = live.proven_at.map(shift);
                live.idle_at = live.idle_at.map(shift);
                shift_open(&mut live.open, &shift);
            }
            State::Disconnected(
                DisconnectReason::BudgetSpent(at, _) | DisconnectReason::CredentialRefused(at),
            ) => *at = shift(*at),
            State::Disconnected(DisconnectReason::Lost(at)) => *at = shift(*at).max(NOW),
            State::Disconnected(DisconnectReason::Idle | DisconnectReason::AuthRequired)
            | State::Disabled
            | State::Disabling
            | State::PermanentlyFailed => {}
        }
    }
}

impl TimedInput {
    pub(super) fn at_once(input: Input) -> Self {
        Self {
            after: Duration::ZERO,
            input,
        }
    }

    pub(super) fn timer(after: Duration, activity: ServerActivity) -> Self {
        let now = NOW + after;
        let seen = |recently: bool| if recently { now } else { Moment::default() };
        Self {
            after,
            input: Input::Timer(Vitals {
                last_received: seen(activity.last_received),
                used: seen(activity.used),
                busy: activity.busy,
                stopped: activity.stopped,
                answered: activity.answered,
            }),
        }
    }
}

/// What a timer sees of a connection: signs of life just now, or none for ages.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerActivity {
    last_received: bool,
    used: bool,
    busy: bool,
    stopped: bool,
    answered: bool,
}

impl ServerActivity {
    pub(super) const ACTIVE: Self = Self {
        answered: true,
        ..Self::of(true, true, false)
    };
    pub(super) const UNUSED: Self = Self::of(true, false, false);
    pub(super) const SILENT: Self = Self::of(false, true, false);
    /// With a call in flight.
    pub(super) const STOPPED: Self = Self {
        stopped: true,
        ..Self::of(false, false, true)
    };

    const fn of(last_received: bool, used: bool, busy: bool) -> Self {
        Self {
            last_received,
            used,
            busy,
            stopped: false,
            answered: false,
        }
    }
}

const ACTIVITIES: [ServerActivity; 6] = [
    ServerActivity::STOPPED,
    ServerActivity::ACTIVE,
    ServerActivity::UNUSED,
    ServerActivity::SILENT,
    ServerActivity::of(false, false, false),
    ServerActivity::of(false, false, true),
];

/// No caller uses a server before its first listing.
const UNLISTED_ACTIVITIES: [ServerActivity; 2] = [ServerActivity::ACTIVE, ServerActivity::SILENT];

/// Every command. `beside`: also the one that dials a server beside the one that it replaces.
fn commands(beside: bool) -> impl Iterator<Item = Input> {
    let commands = [
        Input::Enable { dormant: false },
        Input::Enable { dormant: true },
        Input::Disable,
        Input::Restart,
        Input::Replace { beside: false },
        Input::Demand,
        Input::Login,
    ];
    let beside = beside.then_some(Input::Replace { beside: true });
    commands.into_iter().chain(beside)
}

const OLDER_CALLS: OtherCalls = OtherCalls {
    are_older: true,
    can_finish: false,
};

const YOUNGER_CALLS_THAT_FINISH: OtherCalls = OtherCalls {
    are_older: false,
    can_finish: true,
};

/// A connection on which a call was answered since the listing began.
const ANSWERED: Vitals = Vitals {
    last_received: NOW,
    used: NOW,
    busy: false,
    stopped: false,
    answered: true,
};

/// Every report but `Closed` and `Reachable`, plausible or not.
fn reports(generation: Generation) -> [Input; 32] {
    [
        Input::Begun(generation),
        Input::Opened(generation),
        Input::OpenFailed(generation, Recovery::Retry),
        Input::OpenFailed(generation, Recovery::RetryAfter(RETRY_AFTER)),
        Input::OpenFailed(generation, Recovery::RetryWhenReachable),
        Input::OpenFailed(generation, Recovery::RetryLack),
        Input::OpenFailed(generation, Recovery::Login),
        Input::OpenFailed(generation, Recovery::RetryCredential),
        Input::OpenFailed(generation, Recovery::GiveUp),
        Input::Listed(generation, Listing::Good { ttl: None }),
        Input::Listed(generation, Listing::Good { ttl: Some(TTL) }),
        Input::Listed(generation, Listing::Unconfirmed),
        Input::Listed(generation, Listing::Refused),
        Input::ListFailed(generation, Recovery::Retry, Vitals::default()),
        Input::ListFailed(generation, Recovery::Retry, ANSWERED),
        Input::ListFailed(generation, Recovery::RetryAfter(RETRY_AFTER), Vitals::default()),
        Input::ListFailed(generation, Recovery::RetryLack, Vitals::default()),
        Input::ListFailed(generation, Recovery::Login, Vitals::default()),
        Input::ListChanged(generation),
        Input::Lost(generation),
        Input::Retired(generation, Recovery::Retry),
        Input::Retired(generation, Recovery::RetryWhenReachable),
        Input::CallAnswered(generation),
        Input::CallFailed(generation, Recovery::Retry, OtherCalls::default()),
        Input::CallFailed(generation, Recovery::Retry, OLDER_CALLS),
        Input::CallFailed(generation, Recovery::Retry, YOUNGER_CALLS_THAT_FINISH),
        Input::CallFailed(
            generation,
            Recovery::RetryAfter(RETRY_AFTER),
            OtherCalls::default(),
        ),
        Input::CallFailed(generation, Recovery::RetryLack, OtherCalls::default()),
        Input::CallFailed(generation, Recovery::Login, YOUNGER_CALLS_THAT_FINISH),
        Input::CallFailed(generation, Recovery::RetryCredential, YOUNGER_CALLS_THAT_FINISH),
        Input::ProbeNow(generation),
        Input::ProbeAnswered(generation),
    ]
}

fn shift_open(open: &mut OpenConnection, shift: &impl Fn(Moment) -> Moment) {
    let listings = &mut open.listings;
    listings.not_before = shift(listings.not_before).max(NOW);
    match &mut listings.phase {
        ListingPhase::Current { until, .. } => *until = until.map(shift),
        ListingPhase::Due(at) | ListingPhase::Refused(at) => *at = shift(*at),
        ListingPhase::Running { by, .. } => *by = shift(*by),
    }
    match &mut open.silence {
        SilenceWatch::Off => {}
        SilenceWatch::CheckAt(at) => *at = shift(*at),
        SilenceWatch::Probing { sent, by, .. } => (*sent, *by) = (shift(*sent), shift(*by)),
    }
}

fn transition(effect: &Effect) -> Option<Transition> {
    match effect {
        Effect::Transition(transition) => Some(*transition),
        Effect::Open(_)
        | Effect::Close(..)
        | Effect::CutDrain(_)
        | Effect::Abandon(_)
        | Effect::Hold(..)
        | Effect::List(_)
        | Effect::Probe(_)
        | Effect::MarkStale
        | Effect::Withdraw
        | Effect::CountStale(_) => None,
    }
}
