//! One step of the machine: an input, met by a state, at a moment.
//!
//! Invariants: the state is assigned in `enter` alone; each `Open` is followed by exactly one `Close` of the same
//! generation; nothing is opened while something closes, but for one connection that drains beside the next; a report
//! counts only if it names the current generation.

mod dialling;
mod listing;
mod reports;
mod time;
mod wishes;

use crate::effect::{Cause, Effect, Effects, Transition};
use crate::input::{Input, Recovery};
use crate::machine::Machine;
use crate::state::{State, StateKind};
use crate::time::{Generation, Moment};

pub(crate) struct Step<'a> {
    machine: &'a mut Machine,
    now: Moment,
    /// Taken by the one connection that this step may open.
    fresh: Option<Generation>,
    effects: Vec<Effect>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(machine: &'a mut Machine, now: Moment, fresh: Generation) -> Self {
        Self {
            machine,
            now,
            fresh: Some(fresh),
            effects: Vec::new(),
        }
    }

    pub(crate) fn run(mut self, input: Input) -> Effects {
        self.machine.tokens.settle(&self.machine.policy.bucket, self.now);
        self.take(input);
        self.start_if_due();
        Effects(self.effects)
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Enable { dormant } => self.enable(dormant),
            Input::Disable => self.disable(),
            Input::Restart => self.restart(),
            Input::Replace { beside } => self.replace(beside),
            Input::Adjust(policy) => self.adjust(*policy),
            Input::Demand => self.demand(),
            Input::Login => self.logged_in(),
            Input::Begun(generation) => self.if_current(generation, Self::begun),
            Input::Opened(generation) => self.if_current(generation, Self::opened),
            Input::OpenFailed(generation, recovery) => {
                self.if_current(generation, |step| step.open_failed(Cause::OpenFailed, recovery));
            }
            Input::Listed(generation, listing) => self.if_current(generation, |step| step.listed(listing)),
            Input::ListFailed(generation, recovery) => {
                self.if_current(generation, |step| step.list_failed(recovery));
            }
            Input::ListChanged(generation) => self.if_current(generation, Self::list_changed),
            Input::Lost(generation) => {
                self.if_current(generation, |step| step.lose(Cause::Lost, Recovery::Retry));
            }
            Input::CallAnswered(generation) => self.if_current(generation, Self::call_answered),
            Input::CallFailed(generation, recovery) => {
                self.if_current(generation, |step| step.call_failed(recovery));
            }
            Input::ProbeNow(generation) => self.if_current(generation, Self::probe_now),
            Input::ProbeAnswered(generation) => self.if_current(generation, Self::probe_answered),
            Input::Closed(generation) => self.closed(generation),
            Input::Reachable(generation) => self.reachable(generation),
            Input::Timer(vitals) => self.timers(vitals),
        }
    }

    /// The one place where the state is assigned.
    fn enter(&mut self, next: State, cause: Cause) {
        let generation = self.machine.state.generation().or(next.generation());
        let (from, to) = (self.machine.state.kind(), next.kind());
        self.machine.state = next;
        if from == to {
            return;
        }
        match to {
            StateKind::Connecting | StateKind::Reconnecting | StateKind::Disconnected => {
                self.effects.push(Effect::MarkStale);
            }
            StateKind::Disabling | StateKind::PermanentlyFailed => self.effects.push(Effect::Withdraw),
            StateKind::Connected | StateKind::Disabled => {}
        }
        self.effects.push(Effect::Transition(Transition {
            from,
            to,
            generation,
            cause,
        }));
    }
}
