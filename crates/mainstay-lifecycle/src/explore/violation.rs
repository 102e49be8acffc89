//! The promises of the machine, each by the name of its breach.

/// A promise that a step broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Violation {
    /// A report of a generation that is not current, or a timer before its deadline, changed something.
    StaleReportMattered,
    /// A connection that had to end was not closed.
    CloseMissing,
    /// A connection was closed that was not open, or for no reason.
    CloseUndue,
    /// A connection was cut that should drain, or drains where the next dial waits for it and should not; or the other way
    /// round.
    CloseManner,
    /// A connection went on draining after somebody wanted it cut, or was cut though nobody did.
    DrainOutlivesWish,
    /// A close was cut short before its deadline, or not by it.
    AbandonUndue,
    /// A dial while an earlier connection is neither closed nor abandoned, and does not drain beside the next one either.
    OpenedBesideOld,
    /// A second connection drains beside the next one.
    TwoDrain,
    /// A dial of a server that nobody wants.
    OpenedUnwanted,
    /// A dial that neither a wish nor a call nor the policy asked for.
    OpenedUnasked,
    /// A dial before the pause that was announced was over.
    OpenedTooSoon,
    /// A dial, or no dial, against what the bucket of starts allows: a start takes a token, and gives it back exactly once,
    /// when its connection completes its first call.
    BucketIgnored,
    /// A dial with a generation that is not the fresh one.
    GenerationReused,
    /// A dial that nothing was in the way of did not start.
    DialStalled,
    /// The machine's current or closing generation is not the one that the effects left.
    GenerationsDiffer,
    /// `desired` is not the latest wish, or the state does not follow it.
    WishIgnored,
    /// Failures in a row were counted where there was none, or not where there was one.
    FailuresMiscounted,
    /// A loss did not lead where its recovery, the budget and the policy say.
    LossMisjudged,
    /// A connection counts as proven that is not, or the other way round.
    ProofMisjudged,
    /// A second listing beside the first, too soon after it, for no reason, or of a connection that is not open.
    ListingUndue,
    /// A change, a failed listing, an unconfirmed or an expired one is not followed by another listing.
    ListingForgotten,
    /// Failed listings, failed calls or missed probes in a row were miscounted.
    HealthMiscounted,
    /// A probe of a server that is busy, was heard, or is being asked already.
    ProbeUndue,
    /// A pause that the server asked for is not kept by its calls, or is another than it asked for and is granted.
    HoldMistold,
    /// A doubt about a connection was not followed by a probe.
    DoubtIgnored,
    /// A return was not followed by a dial, or not waited for, or waited for where nobody is absent.
    ReturnIgnored,
    /// The transitions told are not the changes of state.
    TransitionUntold,
    /// The catalog was not marked stale or withdrawn when it should be, or was when it should not.
    CatalogMistold,
    /// A state that waits has no deadline, or one later than what it waits for.
    DeadlineMissing,
    /// A deadline is over after its timer was handled.
    DeadlineStuck,
    /// A world that does its part, and a server that is wanted, do not end connected.
    NeverConnects,
    /// A disabled server is not at rest when its deadlines are over.
    NeverDisabled,
    /// A restart waits for more than the close.
    RestartWaits,
    /// A silent server stays connected.
    SilenceUnnoticed,
    /// A server that nobody uses stays connected.
    IdlenessUnnoticed,
}
