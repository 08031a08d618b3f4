//! A broken promise, and how the run reports it.

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `P1` to `P11`, `answers` for a wrong answer or none, and `slots` or `templates` for a rule of these that is no promise.
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
