//! A broken rule, and its report.

/// A broken rule: a promise by its number, `answers` or `changes`.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

pub(crate) type Check = Result<(), Broken>;

pub(crate) fn ensure(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Check {
    if holds {
        return Ok(());
    }
    let what = what();
    Err(Broken { rule, what })
}
