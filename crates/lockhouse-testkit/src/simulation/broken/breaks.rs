//! The ways to break a store or an engine.

/// The ways to break a store or an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Now and then a semaphore grants one permit more than its capacity.
    GrantsOneTooMany,
    /// Now and then a caller that releases again is answered that this release ended the request.
    EndsTwice,
    /// Now and then a release is answered and not done.
    LosesRelease,
    /// Now and then a grant has the fence of the one before.
    RepeatsFence,
    /// Now and then a request that ended is answered as if it were granted.
    GrantsAgain,
    /// Now and then an ask for two semaphores is granted one.
    GrantsHalf,
    /// Now and then an answer says that a grant lasts for ever, so that its caller does not see that it came too late.
    LastsForEver,
    /// Lapsed requests are not found.
    FindsNoLapsed,
    /// Now and then a call is never answered.
    ForgetsCall,
    /// Released permits are not counted.
    CountsNothingBack,
    /// Expired requests are renewed.
    RenewsExpired,
    /// A grant is answered, and not saved.
    SavesNothing,
    /// A waiter that comes first is passed over.
    ForgetsTurns,
    /// No process is entered in the line of all processes.
    NeverRegisters,
    /// A process that does not come is never passed over.
    PassesNobodyOver,
    /// Every grant passes over all processes.
    PassesAllOver,
    /// A process prefers its own waiters for ever.
    WindowWithoutBound,
    /// Permits that another process releases are not found.
    LosesWake,
    /// Between processes only the time of arrival counts.
    IgnoresPriority,
    /// Slots that are held are handed out.
    SharesSlots,
    /// Slots from the capacity on are handed out.
    MovesSlotsUp,
    /// The highest free slots are handed out.
    TakesHighestSlots,
    /// A refused ask creates the semaphores that a template would create for its grant.
    CreatesForRefused,
    /// Fences restart when a template creates a name again.
    RestartsFences,
    /// Fences of purged semaphores are forgotten.
    ForgetsPurged,
    /// A template sets the capacity of a semaphore that was resized by hand.
    OverridesResize,
    /// A semaphore of a template is deleted while it is held.
    DeletesHeld,
    /// The upkeep finds no unused semaphore.
    KeepsUnused,
    /// A waiter that lacks a key reserves its other semaphores.
    ReservesWithoutKey,
    /// A waiter that lacks a key has no place in its line.
    LosesPlaceAtKey,
}
