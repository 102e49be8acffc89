//! The world of the walk: a machine, the ledger beside it, and everything that can happen next.
//!
//! After each step all moments are moved so that it is always `NOW`: two states that differ by the time of day alone are
//! one. One nanosecond is the tick of the small policies, so that pauses and their jitter are small whole numbers.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::effect::{Effect, Transition};
use crate::explore::invariants;
use crate::explore::observer::Observer;
use crate::explore::search::Scope;
use crate::explore::violation::Violation;
use crate::input::{Input, Listing, Recovery, Vitals};
use crate::machine::Machine;
use crate::policy::Policy;
use crate::state::{Attempt, DisconnectReason, ListingPhase, Listings, SilenceWatch, State};
use crate::time::{Generation, Moment};

/// The moment at which every step starts.
pub(super) const NOW: Moment = Moment::new(Duration::from_nanos(10_000));

/// The least time that can pass.
pub(super) const TICK: Duration = Duration::from_nanos(1);

/// Longer than any deadline of the small policies: what a laptop's lid does to them all at once.
const ASLEEP: Duration = Duration::from_nanos(5_000);

/// How many old generations still report: all that the exhaustive walk has.
const OLD: u64 = 5;

/// How long a server that refuses a request with a time of its own wants to be left alone: longer than is granted.
pub(super) const RETRY_AFTER: Duration = Duration::from_nanos(7);

/// How long a keeper that failed waits before it begins again.
const RESUME_PAUSE: Duration = Duration::from_nanos(3);

/// How long a server says that its list is current.
const TTL: Duration = Duration::from_nanos(4);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Simulation {
    pub(super) machine: Machine,
    pub(super) observer: Observer,
}

/// Of what makes worlds equal, as much as tells most of them apart: the walk spends its time here.
impl Hash for Simulation {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.machine.state.hash(hasher);
        self.machine.closing.hash(hasher);
        self.machine.draining.hash(hasher);
        self.machine.tokens.hash(hasher);
        self.machine.failures.hash(hasher);
        self.observer.opened.hash(hasher);
    }
}

/// An input, so long after the last one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Event {
    pub(super) after: Duration,
    pub(super) input: Input,
}

/// Where between two deadlines an input can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// At the last thing that happened, or at the next deadline.
    Deadlines,
    /// At any tick.
    Ticks,
}

/// What the walk wants to know of a step that kept every promise.
pub(super) struct StepOutcome {
    pub(super) world: Simulation,
    pub(super) transitions: Vec<Transition>,
}

impl Simulation {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            machine: Machine::new(policy),
            observer: Observer::new(NOW),
        }
    }

    /// A server whose keeper failed, and begins again after a pause.
    pub(super) fn resumed(policy: Policy) -> Self {
        let at = NOW + RESUME_PAUSE;
        Self {
            observer: Observer::resumed(NOW, at, &policy),
            machine: Machine::resumed(policy, at),
        }
    }

    /// Hands the machine one event, and holds what it does against its promises.
    pub(super) fn step(&self, event: &Event) -> Result<StepOutcome, Violation> {
        let now = NOW + event.after;
        let mut next = self.clone();
        let effects = next
            .machine
            .handle(event.input.clone(), now, self.observer.fresh())
            .0;
        let verdict = next
            .observer
            .hear(&event.input, now, &next.machine.policy, self.machine.state.kind());
        next.observer
            .follow(&effects, verdict, now, &next.machine.policy)?;
        invariants::told(&self.machine, &effects, &next.machine)?;
        invariants::counted(&self.observer, &mut next, verdict)?;
        invariants::judged(&mut next, verdict, now)?;
        invariants::agreed(&next, now)?;
        invariants::awaited(&next, now, &event.input)?;
        next.shift(event.after);
        Ok(StepOutcome {
            world: next,
            transitions: effects.iter().filter_map(transition).collect(),
        })
    }

    /// Every report of every generation but the current one, and a timer before its time: they must change nothing.
    pub(super) fn hear_what_is_stale(&self) -> Result<u64, Violation> {
        let (current, fresh) = (self.observer.generation(), self.observer.fresh());
        let closes = [self.machine.closing(), self.machine.draining()];
        let mut heard = 0;
        let old = 1.max(fresh.0.saturating_sub(OLD))..=fresh.0;
        for generation in old.map(Generation).filter(|old| current != Some(*old)) {
            let close = (!closes.contains(&Some(generation))).then_some(Input::Closed(generation));
            let absent = self.machine.unreachable() == Some(generation);
            let back = (!absent).then_some(Input::Reachable(generation));
            for report in reports(generation).into_iter().chain(close).chain(back) {
                heard += 1;
                self.unmoved_by(report, &[Effect::CountStale(generation)])?;
            }
        }
        if self.machine.deadline().is_none_or(|deadline| deadline.at > NOW) {
            heard += 1;
            self.unmoved_by(Input::Timer(Vitals::default()), &[])?;
        }
        Ok(heard)
    }

    fn unmoved_by(&self, input: Input, expected: &[Effect]) -> Result<(), Violation> {
        let mut machine = self.machine.clone();
        let effects = machine.handle(input, NOW, self.observer.fresh()).0;
        if effects == expected && machine == self.machine {
            Ok(())
        } else {
            Err(Violation::StaleReportMattered)
        }
    }

    /// Everything that can happen next on this scope.
    pub(super) fn events(&self, scope: &Scope) -> Vec<Event> {
        let &Scope {
            pace, ttl, beside, ..
        } = scope;
        let mut events: Vec<Event> = wishes(beside).map(Event::at_once).collect();
        let adjusted = scope
            .policies
            .iter()
            .filter(|policy| **policy != self.machine.policy);
        events.extend(adjusted.map(|policy| Event::at_once(Input::Adjust(Box::new(policy.clone())))));
        if let Some(current) = self.observer.generation() {
            let said = Listing::Good { ttl: Some(TTL) };
            let reports = reports(current).into_iter();
            let reports = reports.filter(|report| ttl || *report != Input::Listed(current, said));
            events.extend(reports.map(Event::at_once));
        }
        for closing in [self.machine.closing(), self.machine.draining()]
            .into_iter()
            .flatten()
        {
            events.push(Event::at_once(Input::Closed(closing)));
        }
        if let Some(absent) = self.machine.unreachable() {
            events.push(Event::at_once(Input::Reachable(absent)));
        }
        for after in self.pauses(pace) {
            let signs = match &self.machine.state {
                State::Connected(_) => &SIGNS[..],
                State::Connecting {
                    attempt: Attempt::Listing(_),
                    ..
                } => &SIGNS_OF_THE_UNLISTED[..],
                _ => &SIGNS[1..2],
            };
            events.extend(signs.iter().map(|sign| Event::timer(after, *sign)));
        }
        events
    }

    /// How long nothing may happen: until the deadline, or far beyond it; without one, until a token came back.
    fn pauses(&self, pace: Pace) -> Vec<Duration> {
        match self.machine.deadline() {
            Some(deadline) => {
                let until = deadline.at.since(NOW);
                let tick = (pace == Pace::Ticks && TICK < until).then_some(TICK);
                [until, ASLEEP].into_iter().chain(tick).collect()
            }
            None => vec![self.machine.policy.bucket.refill_every],
        }
    }

    fn shift(&mut self, by: Duration) {
        let shift = |at: Moment| Moment::new(at.since_origin().saturating_sub(by));
        self.observer.shift(&shift, NOW);
        let machine = &mut self.machine;
        machine.tokens.shift(&shift);
        for closing in machine.closing.iter_mut().chain(&mut machine.draining) {
            closing.by = shift(closing.by);
        }
        match &mut machine.state {
            State::Connecting { attempt: attempt, .. } => match attempt {
                Attempt::Pausing(at, _) => *at = shift(*at).max(NOW),
                Attempt::Queued(_, by) | Attempt::Opening(_, by) => *by = shift(*by),
                Attempt::Listing(opened) => {
                    shift_refresh(&mut opened.listings, &shift);
                    shift_watch(&mut opened.silence, &shift);
                }
            },
            State::Connected(live) => {
                live.proven_at = live.proven_at.map(shift);
                live.idle_at = live.idle_at.map(shift);
                shift_refresh(&mut live.open.listings, &shift);
                shift_watch(&mut live.open.silence, &shift);
            }
            State::Disconnected(DisconnectReason::BudgetSpent(at, _)) => *at = shift(*at),
            State::Disconnected(DisconnectReason::Lost(at)) => *at = shift(*at).max(NOW),
            State::Disconnected(DisconnectReason::Idle | DisconnectReason::AuthRequired)
            | State::Disabled
            | State::Disabling
            | State::PermanentlyFailed => {}
        }
    }
}

impl Event {
    pub(super) fn at_once(input: Input) -> Self {
        Self {
            after: Duration::ZERO,
            input,
        }
    }

    pub(super) fn timer(after: Duration, signs: Signs) -> Self {
        let now = NOW + after;
        let seen = |sign: bool| if sign { now } else { Moment::default() };
        Self {
            after,
            input: Input::Timer(Vitals {
                heard: seen(signs.heard),
                used: seen(signs.used),
                busy: signs.busy,
                stopped: signs.stopped,
            }),
        }
    }
}

/// What can be seen of a connection: just now, or not for ages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    heard: bool,
    used: bool,
    busy: bool,
    stopped: bool,
}

impl Signs {
    pub(super) const WELL: Self = Self::of(true, true, false);
    pub(super) const UNUSED: Self = Self::of(true, false, false);
    pub(super) const SILENT: Self = Self::of(false, true, false);
    /// With a call in flight.
    pub(super) const STOPPED: Self = Self {
        stopped: true,
        ..Self::of(false, false, true)
    };

    const fn of(heard: bool, used: bool, busy: bool) -> Self {
        Self {
            heard,
            used,
            busy,
            stopped: false,
        }
    }
}

const SIGNS: [Signs; 6] = [
    Signs::STOPPED,
    Signs::WELL,
    Signs::UNUSED,
    Signs::SILENT,
    Signs::of(false, false, false),
    Signs::of(false, false, true),
];

/// Before its first listing nobody uses a server.
const SIGNS_OF_THE_UNLISTED: [Signs; 2] = [Signs::WELL, Signs::SILENT];

/// What people and the configuration may want; `beside` says whether a server may be dialled beside the one that it
/// replaces.
fn wishes(beside: bool) -> impl Iterator<Item = Input> {
    let wishes = [
        Input::Enable { dormant: false },
        Input::Enable { dormant: true },
        Input::Disable,
        Input::Restart,
        Input::Replace { beside: false },
        Input::Demand,
        Input::Login,
    ];
    let beside = beside.then_some(Input::Replace { beside: true });
    wishes.into_iter().chain(beside)
}

/// Every report but `Closed` and `Returned`, plausible or not: the machine must have an answer to all.
fn reports(generation: Generation) -> [Input; 25] {
    [
        Input::Begun(generation),
        Input::Opened(generation),
        Input::OpenFailed(generation, Recovery::Retry),
        Input::OpenFailed(generation, Recovery::RetryOtherEra),
        Input::OpenFailed(generation, Recovery::RetryAfter(RETRY_AFTER)),
        Input::OpenFailed(generation, Recovery::RetryWhenReachable),
        Input::OpenFailed(generation, Recovery::RetryLack),
        Input::OpenFailed(generation, Recovery::Login),
        Input::OpenFailed(generation, Recovery::GiveUp),
        Input::Listed(generation, Listing::Good { ttl: None }),
        Input::Listed(generation, Listing::Good { ttl: Some(TTL) }),
        Input::Listed(generation, Listing::Unconfirmed),
        Input::ListFailed(generation, Recovery::Retry),
        Input::ListFailed(generation, Recovery::RetryAfter(RETRY_AFTER)),
        Input::ListFailed(generation, Recovery::RetryLack),
        Input::ListFailed(generation, Recovery::Login),
        Input::ListChanged(generation),
        Input::Lost(generation),
        Input::CallAnswered(generation),
        Input::CallFailed(generation, Recovery::Retry),
        Input::CallFailed(generation, Recovery::RetryAfter(RETRY_AFTER)),
        Input::CallFailed(generation, Recovery::RetryLack),
        Input::CallFailed(generation, Recovery::Login),
        Input::ProbeNow(generation),
        Input::ProbeAnswered(generation),
    ]
}

fn shift_watch(watch: &mut SilenceWatch, shift: &impl Fn(Moment) -> Moment) {
    match watch {
        SilenceWatch::Off => {}
        SilenceWatch::CheckAt(until) => *until = shift(*until),
        SilenceWatch::Probing { sent: asked, by, .. } => (*asked, *by) = (shift(*asked), shift(*by)),
    }
}

fn shift_refresh(refresh: &mut Listings, shift: &impl Fn(Moment) -> Moment) {
    refresh.not_before = shift(refresh.not_before).max(NOW);
    match &mut refresh.phase {
        ListingPhase::Current { until, .. } => *until = until.map(shift),
        ListingPhase::Due(at) => *at = shift(*at),
        ListingPhase::Running { by, .. } => *by = shift(*by),
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
