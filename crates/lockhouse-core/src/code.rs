//! The stable codes that callers branch on.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $text:literal,)*) => {
        /// The stable word for an error: the `code` of the HTTP API's problem documents.
        ///
        /// ```
        /// use lockhouse_core::Code;
        ///
        /// assert_eq!(Code::Exhausted.as_str(), "exhausted");
        /// assert!(Code::ALL.contains(&Code::Exhausted));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Code] = &[$(Code::$code,)*];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$code => $text,)*
                }
            }
        }
    };
}

codes! {
    /// Malformed, or out of bounds.
    InvalidRequest = "invalid_request",
    /// The request asks for more than the capacity.
    ExceedsCapacity = "exceeds_capacity",
    /// No such semaphore.
    UnknownSemaphore = "unknown_semaphore",
    /// No such request.
    UnknownRequest = "unknown_request",
    /// Permits of the semaphore are held.
    SemaphoreInUse = "semaphore_in_use",
    /// The capacity is not the expected one.
    CapacityChanged = "capacity_changed",
    /// The id belongs to another request.
    IdempotencyConflict = "idempotency_conflict",
    /// The request has ended.
    RequestEnded = "request_ended",
    /// The owner's session has ended.
    SessionEnded = "session_ended",
    /// No room now, or not within the wait.
    Exhausted = "exhausted",
    /// The server does not know the caller.
    Unauthenticated = "unauthenticated",
    /// The caller may not do this.
    Forbidden = "forbidden",
    /// The store did not answer. Try again.
    StoreUnavailable = "store_unavailable",
    /// Too many calls wait. Back off and try again.
    Overloaded = "overloaded",
    /// A defect in Lockhouse or in its store.
    Internal = "internal",
}

impl Code {
    /// The code that `text` spells.
    pub fn parse(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
