//! The ways to break a store or an engine.

/// The ways to break a store or an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Now and then a semaphore grants one more than it has.
    GrantsOneTooMany,
    /// Now and then a caller that releases again is answered that this release ended the request.
    EndsTwice,
    /// Now and then a release is answered and not done.
    LosesRelease,
    /// Now and then a grant has the fence of the one before.
    RepeatsFence,
    /// Now and then a request that ended is answered as if it were granted.
    GrantsAgain,
    /// Now and then of two semaphores that are asked for one is granted.
    GrantsHalf,
    /// Now and then a grant is said to last for ever, so that nobody sees that it came too late.
    LastsForEver,
    /// Those that have lapsed are not found.
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
    /// A process that does not come is waited for, however long that takes.
    PassesNobodyOver,
    /// Every grant passes over all processes.
    PassesAllOver,
    /// A process prefers its own waiters for ever.
    WindowWithoutBound,
    /// Permits that another process releases are not found.
    LosesWake,
    /// Between processes only the time counts at which one came.
    IgnoresPriority,
    /// Slots that are held are handed out.
    SharesSlots,
    /// Slots from the capacity on are handed out.
    MovesSlotsUp,
    /// The highest free slots are handed out.
    TakesHighestSlots,
    /// An ask that is refused creates the semaphores that a template would.
    CreatesForRefused,
    /// Fences restart when a template creates a name again.
    RestartsFences,
    /// Fences of what was purged are forgotten.
    ForgetsPurged,
    /// A template sets the capacity of what was resized by hand.
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
