//! A broken promise, and how the run reports it.

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `P1` to `P11`; `answers` where a call is not answered as it must be; `slots` or `templates` where a rule of those
    /// is broken that is no promise.
    pub promise: &'static str,
    /// The event.
    pub text: String,
}

pub(super) type Check = Result<(), Violation>;

/// Unless `is_kept`, `promise` is broken as `text` says.
pub(super) fn ensure(is_kept: bool, promise: &'static str, text: impl FnOnce() -> String) -> Check {
    if is_kept {
        return Ok(());
    }
    Err(Violation {
        promise,
        text: text(),
    })
}
