//! One machine with a clock, and the server behind it.

use std::time::Duration;

use mainstay_lifecycle::{
    Attempt, Deadline, DisconnectReason, Effect, Generation, Input, Listing, Machine, Moment, Pause, Policy,
    Recovery, State, StateKind, Vitals,
};

/// More than a day of probes. A machine that asks for more timers in one `pass` is broken.
const TIMERS_LIMIT: usize = 10_000;

pub(crate) struct Server {
    pub(crate) machine: Machine,
    pub(crate) now: Moment,
    generations: u64,
    /// What the next timers see of the connection.
    pub(crate) activity: Activity,
    done: Vec<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Heard and used all the time.
    Lively,
    /// Neither heard nor used since the beginning.
    Silent,
    /// Heard all the time, used never.
    Unused,
    /// Neither heard nor used, but at work on a call.
    Busy,
    /// The same, but the process is stopped.
    Stopped,
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Server {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            machine: Machine::new(policy),
            now: Moment::new(seconds(1_000)),
            generations: 0,
            activity: Activity::Lively,
            done: Vec::new(),
        }
    }

    /// A server that was enabled, and is dialled.
    pub(crate) fn enabled(policy: Policy) -> Self {
        let mut server = Self::new(policy);
        server.give(Input::Enable { dormant: false });
        server
    }

    /// Servers that were enabled in the same moment. No two have the same generation, as in a process.
    pub(crate) fn many(count: u64, policy: &Policy) -> Vec<Self> {
        let enabled = |number| {
            let mut server = Self::new(policy.clone());
            server.generations = number * 1_000;
            server.give(Input::Enable { dormant: false });
            server
        };
        (0..count).map(enabled).collect()
    }

    /// A server that was enabled, and whose first connection is open and listed.
    pub(crate) fn connected(policy: Policy) -> Self {
        let mut server = Self::enabled(policy);
        server.connect();
        server
    }

    /// A connected server that has answered a call.
    pub(crate) fn proven(policy: Policy) -> Self {
        let mut server = Self::connected(policy);
        server.give(Input::CallAnswered(server.generation()));
        server
    }

    /// An enabled server whose keeper failed.
    pub(crate) fn resumed(policy: Policy) -> Self {
        let server = Self::new(policy);
        Self {
            machine: Machine::resumed(server.machine.policy().clone(), server.now),
            ..server
        }
    }

    pub(crate) fn give(&mut self, input: Input) -> Vec<Effect> {
        let fresh = Generation(self.generations + 1);
        let effects: Vec<Effect> = self.machine.handle(input, self.now, fresh).into_iter().collect();
        if effects.contains(&Effect::Open(fresh)) {
            self.generations += 1;
        }
        self.done.extend(&effects);
        effects
    }

    /// Lets time pass, and gives the machine each timer that it asked for.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Effect> {
        let end = self.now + time;
        let mut effects = Vec::new();
        for _ in 0..TIMERS_LIMIT {
            let Some(deadline) = self.deadline().filter(|deadline| deadline.at <= end) else {
                self.now = end;
                return effects;
            };
            self.now = deadline.at;
            effects.extend(self.give(Input::Timer(self.vitals())));
        }
        panic!("the machine asks for timers for ever: {:?}", self.machine)
    }

    fn vitals(&self) -> Vitals {
        let ever = Moment::default();
        let (last_received, used, busy) = match self.activity {
            Activity::Lively => (self.now, self.now, false),
            Activity::Silent => (ever, ever, false),
            Activity::Unused => (self.now, ever, false),
            Activity::Busy | Activity::Stopped => (ever, ever, true),
        };
        Vitals {
            last_received,
            used,
            busy,
            stopped: self.activity == Activity::Stopped,
            answered: false,
        }
    }

    /// Answers until the server is connected. Call `wait_for_dial` first if there is a pause.
    pub(crate) fn connect(&mut self) -> Generation {
        self.close();
        let generation = self.generation();
        self.give(Input::Opened(generation));
        self.give(Input::Listed(generation, Listing::Good { ttl: None }));
        assert_eq!(self.kind(), StateKind::Connected);
        generation
    }

    /// Ends the close that is under way, if there is one.
    pub(crate) fn close(&mut self) -> Vec<Effect> {
        match self.machine.closing() {
            Some(closing) => self.give(Input::Closed(closing)),
            None => Vec::new(),
        }
    }

    /// The current connection is lost, and closed.
    pub(crate) fn lose(&mut self) {
        self.give(Input::Lost(self.generation()));
        self.close();
    }

    /// The dial that is under way fails, and is closed.
    pub(crate) fn fail(&mut self, recovery: Recovery) {
        self.give(Input::OpenFailed(self.generation(), recovery));
        self.close();
    }

    pub(crate) fn kind(&self) -> StateKind {
        self.machine.state().kind()
    }

    /// The generations that finish their calls beside the current one.
    pub(crate) fn draining(&self) -> Vec<Generation> {
        self.machine.draining().collect()
    }

    pub(crate) fn generation(&self) -> Generation {
        self.machine
            .state()
            .generation()
            .expect("a connection is current")
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        self.machine.deadline()
    }

    /// How long until the next dial, and why; `None` if none is planned.
    pub(crate) fn pause(&self) -> Option<(Duration, Pause)> {
        match self.machine.state() {
            State::Connecting {
                attempt: Attempt::Pausing(at, why),
                ..
            } => Some((at.since(self.now), *why)),
            State::Disconnected(DisconnectReason::BudgetSpent(at, why)) => Some((at.since(self.now), *why)),
            _ => None,
        }
    }

    /// Waits until the pause is over.
    pub(crate) fn wait_for_dial(&mut self) {
        if let Some((pause, _)) = self.pause() {
            self.pass(pause);
        }
    }

    pub(crate) fn starts(&self) -> usize {
        self.done
            .iter()
            .filter(|effect| matches!(effect, Effect::Open(_)))
            .count()
    }

    pub(crate) fn listings(&self) -> usize {
        self.done
            .iter()
            .filter(|effect| matches!(effect, Effect::List(_)))
            .count()
    }

    pub(crate) fn probes(&self) -> usize {
        self.done
            .iter()
            .filter(|effect| matches!(effect, Effect::Probe(_)))
            .count()
    }
}
