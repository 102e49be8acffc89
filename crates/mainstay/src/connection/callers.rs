//! The calls in flight on a connection, and which of them caused a server's request.
//!
//! Over HTTP the request comes on the stream of its call. Otherwise the protocol does not say which call it belongs to. Then
//! it is attributed to a caller only if no other caller could have caused it. An abandoned call still counts for a while, or until
//! the server answers it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::handler::ClientHandler;
use crate::lock::Lock;
use crate::wire::{IdlePause, MessageOrigin};

/// How long an abandoned call may still cause requests: the server may see the cancellation late, or not at all.
const ABANDONED_CALL_GRACE: Duration = Duration::from_secs(30);

/// Callers that are remembered after they left without an answer, and such calls of each of them. If there are more, each counts for
/// all of its time.
const LINGERING_LIMIT: usize = 8;
const LINGERING_CALLS_LIMIT: usize = 64;

/// The bit of the count of plain calls that says that the gate is closed.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The calls in flight. Those without a handler of their own are only counted: they are the fleet's.
///
/// Calls enter through a gate. Once it is closed, no call enters; the calls inside finish or are cut.
#[derive(Default)]
pub(crate) struct InFlight {
    /// How many there are, and [`CLOSED`].
    plain: AtomicUsize,
    /// Shared by all plain calls: the fleet's handler answers for all of them.
    plain_hold: Arc<IdlePause>,
    own: Lock<Own>,
    left: Notify,
}

/// The handler of a call; `None` for the fleet's.
type CallHandler = Option<Arc<dyn ClientHandler>>;

#[derive(Default)]
struct Own {
    is_closed: bool,
    present: Vec<(Arc<dyn ClientHandler>, Arc<IdlePause>)>,
    /// The last callers that left without an answer, the later one last.
    abandoned: Vec<AbandonedCaller>,
    /// Until when others that left before them may still cause requests.
    crowded_until: Option<Instant>,
}

/// A caller that left without an answer, and until when its call may still cause requests.
struct AbandonedCaller {
    /// Its own handler, if it had one.
    own: Option<Left>,
    /// Its calls that the server has not answered since. `None` if they are not known: plain calls share their hold.
    calls: Option<Vec<Arc<IdlePause>>>,
    until: Instant,
}

/// A handler whose call was abandoned. The reference is weak: late messages go to it only while its client is still there.
struct Left {
    handler: Weak<dyn ClientHandler>,
    client: Option<u64>,
}

/// Which call caused a server's request, with the idle pauses of the calls that may be the one.
pub(crate) enum CallOrigin {
    /// A plain call, or none: the fleet's handler answers.
    FleetHandler(Arc<IdlePause>),
    /// The only caller in flight.
    OnlyCaller(Arc<dyn ClientHandler>, Vec<Arc<IdlePause>>),
    /// A caller that abandoned its calls and is still there.
    Left(Arc<dyn ClientHandler>),
    /// A caller that has left.
    Gone,
    /// One of several calls of one client; this is the latest of them.
    LatestOfClient(Arc<dyn ClientHandler>),
    /// Several callers could have caused it, and the protocol does not say which.
    Unknown,
}

/// A call in flight; it leaves when this is dropped.
pub(crate) struct CallGuard<'a> {
    callers: &'a InFlight,
    own: CallHandler,
    hold: Arc<IdlePause>,
    settled: bool,
}

impl InFlight {
    /// A new call; `None` once the gate is closed.
    pub(crate) fn enter(&self, own: CallHandler) -> Option<CallGuard<'_>> {
        let hold = match &own {
            None => {
                if self.plain.fetch_add(1, Ordering::Relaxed) & CLOSED != 0 {
                    self.plain.fetch_sub(1, Ordering::Release);
                    self.left.notify_waiters();
                    return None;
                }
                self.plain_hold.clone()
            }
            Some(handler) => {
                let hold = Arc::<IdlePause>::default();
                let mut own = self.own.lock();
                if own.is_closed {
                    return None;
                }
                own.present.push((handler.clone(), hold.clone()));
                hold
            }
        };
        Some(CallGuard {
            callers: self,
            own,
            hold,
            settled: false,
        })
    }

    /// Closes the gate: each call has entered by now, and is seen by [`InFlight::any`], or never enters.
    pub(crate) fn close(&self) {
        self.own.lock().is_closed = true;
        self.plain.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Whether any call is in flight. Of one that has left, everything that it did before is seen.
    pub(crate) fn any(&self) -> bool {
        self.plain.load(Ordering::Acquire) & !CLOSED > 0 || !self.own.lock().present.is_empty()
    }

    /// Comes back when no call is in flight.
    pub(crate) async fn all_left(&self) {
        loop {
            let left = self.left.notified();
            if !self.any() {
                return;
            }
            left.await;
        }
    }

    /// The server has answered this call, which its caller gave up on: it causes nothing more.
    pub(crate) fn late_answer(&self, call: &Arc<IdlePause>) {
        let mut own = self.own.lock();
        // Where the caller is about to leave, it leaves as one whose call was answered.
        own.present.retain(|(_, hold)| !Arc::ptr_eq(hold, call));
        own.abandoned.retain_mut(|caller| {
            let Some(calls) = &mut caller.calls else {
                return true;
            };
            calls.retain(|hold| !Arc::ptr_eq(hold, call));
            !calls.is_empty()
        });
    }

    /// Which call caused the request that the server sends now.
    pub(crate) fn origin_of(&self, cause: &MessageOrigin) -> CallOrigin {
        match cause {
            MessageOrigin::Unknown => self.origin_alone(),
            MessageOrigin::Ours => CallOrigin::FleetHandler(self.plain_hold.clone()),
            MessageOrigin::Call(hold) if Arc::ptr_eq(hold, &self.plain_hold) => {
                CallOrigin::FleetHandler(hold.clone())
            }
            MessageOrigin::Call(hold) => {
                let own = self.own.lock();
                let caller = own.present.iter().find(|(_, held)| Arc::ptr_eq(held, hold));
                caller.map_or(CallOrigin::Gone, |(handler, _)| {
                    CallOrigin::OnlyCaller(handler.clone(), vec![hold.clone()])
                })
            }
            MessageOrigin::Gone => CallOrigin::Gone,
        }
    }

    /// Which call caused a request that names none: the only one that could have.
    fn origin_alone(&self) -> CallOrigin {
        let mut own = self.own.lock();
        let now = Instant::now();
        own.abandoned.retain(|caller| now < caller.until);
        own.crowded_until = own.crowded_until.filter(|until| now < *until);
        if own.crowded_until.is_some() {
            return CallOrigin::Unknown;
        }
        let plain = self.plain.load(Ordering::Relaxed) & !CLOSED > 0;
        let present = own.present.first().map(|(handler, _)| Arc::downgrade(handler));
        let left = || {
            own.abandoned
                .iter()
                .find_map(|caller| Some(caller.own.as_ref()?.handler.clone()))
        };
        let Some(handler) = present.or_else(left) else {
            return CallOrigin::FleetHandler(self.plain_hold.clone());
        };
        let same = |other: &Weak<dyn ClientHandler>| Weak::ptr_eq(other, &handler);
        let alone = !plain
            && own.present.iter().all(|(other, _)| same(&Arc::downgrade(other)))
            && own
                .abandoned
                .iter()
                .all(|caller| caller.own.as_ref().is_some_and(|left| same(&left.handler)));
        match own.present.last() {
            Some((latest, _)) if alone => {
                let holds = own.present.iter().map(|(_, hold)| hold.clone());
                CallOrigin::OnlyCaller(latest.clone(), holds.collect())
            }
            // No other caller may answer for an abandoned call.
            None if alone => handler.upgrade().map_or(CallOrigin::Gone, CallOrigin::Left),
            Some((latest, _)) if !plain && own.is_one_client() => CallOrigin::LatestOfClient(latest.clone()),
            None if !plain && own.is_one_client() => {
                let there = own.abandoned.iter().rev();
                let mut there = there.filter_map(|caller| caller.own.as_ref()?.handler.upgrade());
                there.next().map_or(CallOrigin::Gone, CallOrigin::LatestOfClient)
            }
            Some(_) | None => CallOrigin::Unknown,
        }
    }

    /// The idle pauses of the calls of this client.
    pub(crate) fn holds_of(&self, handler: &Arc<dyn ClientHandler>) -> Vec<Arc<IdlePause>> {
        let client = handler.client();
        let own = self.own.lock();
        let of_client = own.present.iter().filter(|(other, _)| {
            Arc::ptr_eq(other, handler) || (client.is_some() && other.client() == client)
        });
        of_client.map(|(_, hold)| hold.clone()).collect()
    }

    /// The client of the call with this hold, where it has one.
    pub(crate) fn client_of(&self, hold: &Arc<IdlePause>) -> Option<u64> {
        let own = self.own.lock();
        let (handler, _) = own.present.iter().find(|(_, held)| Arc::ptr_eq(held, hold))?;
        handler.client()
    }
}

impl Own {
    /// Whether all callers in flight, and those that left lately, belong to the same client.
    fn is_one_client(&self) -> bool {
        let here = self.present.iter().map(|(handler, _)| handler.client());
        let left = self.abandoned.iter().map(|caller| caller.own.as_ref()?.client);
        let mut clients = here.chain(left);
        let first = clients.next().flatten();
        first.is_some() && clients.all(|client| client == first)
    }

    fn linger(&mut self, caller: &CallHandler, call: &Arc<IdlePause>) {
        let own = caller.as_ref().map(|handler| Left {
            handler: Arc::downgrade(handler),
            client: handler.client(),
        });
        let same = |other: &AbandonedCaller| match (&other.own, &own) {
            (Some(other), Some(own)) => Weak::ptr_eq(&other.handler, &own.handler),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let mut calls = caller.as_ref().map(|_| Vec::new());
        if let Some(at) = self.abandoned.iter().position(same) {
            calls = self.abandoned.remove(at).calls;
        }
        if let Some(known) = &mut calls {
            known.push(call.clone());
        }
        calls = calls.filter(|known| known.len() <= LINGERING_CALLS_LIMIT);
        if self.abandoned.len() >= LINGERING_LIMIT {
            self.crowded_until = Some(self.abandoned.remove(0).until);
        }
        let until = Instant::now() + ABANDONED_CALL_GRACE;
        self.abandoned.push(AbandonedCaller { own, calls, until });
    }
}

impl CallGuard<'_> {
    /// Pauses the call's idle timeout.
    pub(crate) fn hold(&self) -> Arc<IdlePause> {
        self.hold.clone()
    }

    /// Ends the call as one that the server has answered, or never saw.
    pub(crate) fn settled(mut self) {
        self.settled = true;
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if self.own.is_none() {
            self.callers.plain.fetch_sub(1, Ordering::Release);
        }
        if self.own.is_some() || !self.settled {
            let mut own = self.callers.own.lock();
            let before = own.present.len();
            own.present.retain(|(_, hold)| !Arc::ptr_eq(hold, &self.hold));
            let is_answered_late = self.own.is_some() && own.present.len() == before;
            if !self.settled && !is_answered_late {
                own.linger(&self.own, &self.hold);
            }
        }
        self.callers.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct IdleHandler(Option<u64>);

    impl ClientHandler for IdleHandler {
        fn client(&self) -> Option<u64> {
            self.0
        }
    }

    fn handler() -> Arc<dyn ClientHandler> {
        Arc::new(IdleHandler(None))
    }

    fn enter(callers: &InFlight, own: CallHandler) -> CallGuard<'_> {
        callers.enter(own).expect("the gate is open")
    }

    #[tokio::test]
    async fn once_the_gate_is_closed_nobody_enters_and_whoever_is_in_is_waited_for() {
        let callers = InFlight::default();
        let (plain, own) = (enter(&callers, None), enter(&callers, Some(handler())));
        callers.close();
        assert!(callers.enter(None).is_none());
        assert!(callers.enter(Some(handler())).is_none());
        let mut all_left = std::pin::pin!(callers.all_left());
        for present in [plain, own] {
            assert!(callers.any());
            let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
            assert!(all_left.as_mut().poll(context).is_pending());
            drop(present);
        }
        all_left.await;
    }

    #[test]
    fn what_came_on_the_stream_of_a_call_is_that_caller_s_alone() {
        let callers = InFlight::default();
        let (one, other) = (handler(), handler());
        let first = enter(&callers, Some(one.clone()));
        let second = enter(&callers, Some(other.clone()));
        let plain = enter(&callers, None);
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Unknown),
            CallOrigin::Unknown
        ));
        for (present, caller) in [(&first, &one), (&second, &other)] {
            let origin = callers.origin_of(&MessageOrigin::Call(present.hold()));
            assert!(matches!(origin, CallOrigin::OnlyCaller(handler, _) if Arc::ptr_eq(&handler, caller)));
        }
        let origin = callers.origin_of(&MessageOrigin::Call(plain.hold()));
        assert!(matches!(origin, CallOrigin::FleetHandler(_)));
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Ours),
            CallOrigin::FleetHandler(_)
        ));
    }

    #[test]
    fn a_question_to_a_client_holds_all_calls_of_that_client_and_no_other() {
        let callers = InFlight::default();
        let of = |client| -> Arc<dyn ClientHandler> { Arc::new(IdleHandler(client)) };
        let handlers = [of(Some(7)), of(Some(7)), of(Some(9)), of(None), of(None)];
        let calls = handlers
            .each_ref()
            .map(|handler| enter(&callers, Some(handler.clone())));
        for (asked, held) in [(0, &[0, 1][..]), (1, &[0, 1]), (2, &[2]), (3, &[3])] {
            let holds = callers.holds_of(&handlers[asked]);
            let expected = held.iter().map(|at| calls[*at].hold());
            assert!(
                holds.len() == held.len()
                    && holds
                        .iter()
                        .zip(expected)
                        .all(|(hold, call)| Arc::ptr_eq(hold, &call))
            );
        }
        // A client may be asked by a handler that is in no call.
        assert_eq!(callers.holds_of(&of(Some(7))).len(), 2);
        assert_eq!(callers.holds_of(&of(None)).len(), 0);
    }

    #[test]
    fn what_comes_after_a_call_was_given_up_is_its_caller_s_or_nobody_s() {
        let callers = InFlight::default();
        let (one, other) = (handler(), handler());
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Unknown),
            CallOrigin::FleetHandler(_)
        ));
        drop(enter(&callers, Some(one.clone())));
        let origin = callers.origin_of(&MessageOrigin::Unknown);
        assert!(matches!(origin, CallOrigin::Left(handler) if Arc::ptr_eq(&handler, &one)));
        let plain = enter(&callers, None);
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Unknown),
            CallOrigin::Unknown
        ));
        plain.settled();
        drop(enter(&callers, Some(other)));
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Unknown),
            CallOrigin::Unknown
        ));
    }

    #[test]
    fn what_comes_after_a_plain_call_was_given_up_may_be_of_that_call() {
        let callers = InFlight::default();
        drop(enter(&callers, None));
        let _own = enter(&callers, Some(handler()));
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Unknown),
            CallOrigin::Unknown
        ));
    }

    #[test]
    fn a_handler_whose_call_was_given_up_is_not_kept_and_what_comes_of_the_call_is_nobody_s() {
        let callers = InFlight::default();
        for client in [None, Some(1)] {
            let one: Arc<dyn ClientHandler> = Arc::new(IdleHandler(client));
            let kept = Arc::downgrade(&one);
            drop(enter(&callers, Some(one)));
            assert!(kept.upgrade().is_none(), "{client:?}");
            assert!(matches!(
                callers.origin_of(&MessageOrigin::Unknown),
                CallOrigin::Gone | CallOrigin::Unknown
            ));
        }
        // Two that are gone are two callers still: what comes may be of either.
        let other = enter(&callers, Some(handler()));
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Unknown),
            CallOrigin::Unknown
        ));
        other.settled();
    }

    #[test]
    fn a_call_that_was_given_up_counts_until_the_server_answers_it() {
        let callers = InFlight::default();
        let (one, other) = (handler(), handler());
        let abandoned: Vec<_> = (0..2)
            .map(|_| {
                let call = enter(&callers, Some(one.clone()));
                let hold = call.hold();
                drop(call);
                hold
            })
            .collect();
        let running = enter(&callers, Some(other.clone()));
        for hold in &abandoned {
            let origin = callers.origin_of(&MessageOrigin::Unknown);
            assert!(
                matches!(origin, CallOrigin::Unknown),
                "one of them may still cause something"
            );
            callers.late_answer(hold);
        }
        let origin = callers.origin_of(&MessageOrigin::Unknown);
        assert!(matches!(origin, CallOrigin::OnlyCaller(handler, _) if Arc::ptr_eq(&handler, &other)));
        // The answer may come in the moment between the end of a call and its caller's leave.
        let late = enter(&callers, Some(one));
        callers.late_answer(&late.hold());
        drop(late);
        let origin = callers.origin_of(&MessageOrigin::Unknown);
        assert!(matches!(origin, CallOrigin::OnlyCaller(handler, _) if Arc::ptr_eq(&handler, &other)));
        running.settled();
    }

    #[test]
    fn of_many_callers_that_left_none_is_forgotten_before_its_time() {
        let callers = InFlight::default();
        let forgotten = enter(&callers, Some(handler()));
        let hold = forgotten.hold();
        drop(forgotten);
        let others: Vec<_> = (0..LINGERING_LIMIT)
            .map(|_| {
                let call = enter(&callers, Some(handler()));
                let hold = call.hold();
                drop(call);
                hold
            })
            .collect();
        others
            .iter()
            .chain([&hold])
            .for_each(|hold| callers.late_answer(hold));
        let _running = enter(&callers, Some(handler()));
        let origin = callers.origin_of(&MessageOrigin::Unknown);
        assert!(
            matches!(origin, CallOrigin::Unknown),
            "the first was too long ago to be known"
        );
    }

    #[test]
    fn what_comes_while_several_calls_of_one_client_run_is_that_client_s() {
        let callers = InFlight::default();
        let of = |client| -> Arc<dyn ClientHandler> { Arc::new(IdleHandler(Some(client))) };
        let latest = of(1);
        let (first, second) = (
            enter(&callers, Some(of(1))),
            enter(&callers, Some(latest.clone())),
        );
        let origin = callers.origin_of(&MessageOrigin::Unknown);
        assert!(matches!(origin, CallOrigin::LatestOfClient(handler) if Arc::ptr_eq(&handler, &latest)));
        for another in [Some(of(2)), Some(handler()), None] {
            let third = enter(&callers, another);
            assert!(matches!(
                callers.origin_of(&MessageOrigin::Unknown),
                CallOrigin::Unknown
            ));
            third.settled();
        }
        drop(first);
        assert!(
            matches!(
                callers.origin_of(&MessageOrigin::Unknown),
                CallOrigin::LatestOfClient(_)
            ),
            "it may still run"
        );
        second.settled();
        let _other = enter(&callers, Some(of(2)));
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Unknown),
            CallOrigin::Unknown
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_a_client_abandoned_its_calls_is_that_client_s_for_a_while() {
        let callers = InFlight::default();
        let of = |client| -> Arc<dyn ClientHandler> { Arc::new(IdleHandler(Some(client))) };
        let handlers = [of(1), of(1)];
        drop(handlers.clone().map(|handler| enter(&callers, Some(handler))));
        let origin = || callers.origin_of(&MessageOrigin::Unknown);
        assert!(
            matches!(origin(), CallOrigin::LatestOfClient(handler) if Arc::ptr_eq(&handler, &handlers[1]))
        );
        let plain = enter(&callers, None);
        assert!(
            matches!(origin(), CallOrigin::Unknown),
            "it may be of the plain call"
        );
        plain.settled();
        tokio::time::advance(ABANDONED_CALL_GRACE).await;
        assert!(matches!(origin(), CallOrigin::FleetHandler(_)));
    }

    #[test]
    fn what_came_on_the_stream_of_a_call_that_is_over_is_nobody_s() {
        let callers = InFlight::default();
        let gone = enter(&callers, Some(handler()));
        let hold = gone.hold();
        gone.settled();
        let _alone = enter(&callers, Some(handler()));
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Call(hold)),
            CallOrigin::Gone
        ));
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Gone),
            CallOrigin::Gone
        ));
        assert!(matches!(
            callers.origin_of(&MessageOrigin::Unknown),
            CallOrigin::OnlyCaller(..)
        ));
    }
}
