//! Interrupts a script that waits for a locked gap, where the server's own limit of such a wait is too
//! long.
//!
//! Neither MySQL nor MariaDB ends the wait of an INSERT in less than a second, and the transaction
//! keeps other rows locked meanwhile. So another session interrupts it, if any session waits for a lock:
//! a slow server is no reason. That session is kept for further interruptions, which have to be soon. If a script was interrupted though no
//! gap was locked, further ones may take longer for a while, or until one meets a locked gap: their work would be lost
//! again and again.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::store::Error;
use tokio::time::{Instant, timeout};

use super::connection::{Answers, Failed, Interruption};
use super::driver::Driver;
use super::script::Script;
use super::spare::Spare;

/// How long a script may wait for a locked gap at first.
const FIRST: Duration = Duration::from_millis(100);

/// The server itself ends the wait after one to two seconds, so a limit as long as this interrupts
/// nothing.
const MOST: Duration = Duration::from_secs(2);

/// How often it is checked, within the limit, whether the script has come to another statement.
const LOOKS: u32 = 4;

/// By what factor the limit grows with each interruption that was of no use, and for how long.
const GROWTH: u32 = 3;
const GROWN_FOR: Duration = Duration::from_secs(5);

/// How long the interruption may take.
const INTERRUPT: Duration = Duration::from_millis(500);

/// How long a script may wait for a locked gap now.
#[derive(Debug)]
pub(super) struct Patience(Mutex<Limit>);

#[derive(Debug)]
struct Limit {
    time: Duration,
    grew: Option<Instant>,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Limit {
            time: FIRST,
            grew: None,
        }))
    }

    /// Says that an interruption was of no use, since no gap is locked. Several scripts may learn so at
    /// once. Nothing has waited for the new limit yet by then, and it grows no further.
    pub(super) fn grow(&self) {
        let mut limit = self.limit();
        if limit.grew.is_some_and(|grew| grew.elapsed() < limit.time) {
            return;
        }
        limit.time = (limit.time * GROWTH).min(MOST);
        limit.grew = Some(Instant::now());
    }

    /// Says that a script met a locked gap. Others may meet it too, and it would delay them all the more.
    pub(super) fn shrink(&self) {
        let mut limit = self.limit();
        (limit.time, limit.grew) = (FIRST, None);
    }

    /// `None` if no script is to be interrupted.
    pub(super) fn get(&self) -> Option<Duration> {
        let time = self.limit().time;
        (time < MOST).then_some(time)
    }

    fn limit(&self) -> MutexGuard<'_, Limit> {
        let mut limit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if limit.grew.is_some_and(|grew| grew.elapsed() >= GROWN_FOR) {
            (limit.time, limit.grew) = (FIRST, None);
        }
        limit
    }
}

/// Waits for `run`, which runs `script`, and interrupts it once one INSERT has taken `at_most`, or up to
/// a quarter longer, and some session waits for a lock. If none does, it tries again after twice as long. `spare` opens the
/// connection for that.
pub(super) async fn briefly<D: Driver, S>(
    run: impl Future<Output = Result<Answers<D>, Failed>>,
    script: &Script,
    mut at_most: Duration,
    interruption: Interruption,
    spare: impl Fn() -> S,
) -> Result<Answers<D>, Failed>
where
    S: Future<Output = Result<Spare<D>, Error>> + Send + 'static,
{
    let mut run = pin!(run);
    loop {
        let (mut at, mut looks) = (0, 0);
        while looks < LOOKS || script.inserts(at).is_none() {
            if let Ok(answers) = timeout(at_most / LOOKS, &mut run).await {
                return answers;
            }
            let answered = interruption.answered();
            looks = if answered == at { looks + 1 } else { 0 };
            at = answered;
        }
        at_most *= 2;
        // It is opened to the end, for the next script.
        let opened = tokio::spawn(spare());
        let opened = tokio::select! {
            biased;
            answers = &mut run => return answers,
            opened = opened => opened,
        };
        let spare = match opened {
            Ok(Ok(spare)) if interruption.answered() == at => spare,
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a script that may wait for a lock is not interrupted yet");
                continue;
            }
            // The runtime ends.
            Err(_) => return run.await,
        };
        let mut interrupted = pin!(interrupt(&interruption, spare));
        let (answers, interrupted) = tokio::select! {
            biased;
            // Both are awaited, so that the interruption does not meet the connection's next script.
            answers = &mut run => (Some(answers), interrupted.await),
            interrupted = &mut interrupted => (None, interrupted),
        };
        let answers = match (answers, interrupted) {
            (Some(answers), _) => answers,
            (None, true) => run.await,
            (None, false) => continue,
        };
        return answers.map_err(|failed| Failed {
            trouble: failed.trouble.interrupted::<D>(),
            ..failed
        });
    }
}

/// Whether the server says that it interrupted the session.
async fn interrupt<D: Driver>(interruption: &Interruption, mut spare: Spare<D>) -> bool {
    let deadline = Instant::now() + INTERRUPT;
    match spare.run(&interruption.script, deadline).await {
        Some(Ok(_)) => true,
        Some(Err(failed)) => {
            let error = failed.trouble.before_commit::<D>("interrupting a script");
            tracing::debug!(%error, "a script that may wait for a lock is not interrupted yet");
            false
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// A slow server would otherwise do all work twice.
    #[tokio::test(start_paused = true)]
    async fn useless_interruptions_make_further_ones_later_for_a_while() {
        let patience = Patience::new();
        assert_eq!(patience.get(), Some(FIRST));
        for times in [3, 9] {
            patience.grow();
            assert_eq!(patience.get(), Some(FIRST * times));
            advance(FIRST * times).await;
        }
        patience.grow();
        assert_eq!(patience.get(), None);
        advance(GROWN_FOR - Duration::from_millis(1)).await;
        patience.grow();
        assert_eq!(patience.get(), None);
        advance(GROWN_FOR).await;
        assert_eq!(patience.get(), Some(FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_that_meets_a_locked_gap_makes_further_interruptions_soon_again() {
        let patience = Patience::new();
        for times in [1, 3, 9] {
            patience.grow();
            advance(FIRST * times * GROWTH).await;
        }
        assert_eq!(patience.get(), None);
        patience.shrink();
        assert_eq!(patience.get(), Some(FIRST));
    }

    /// One transaction may have kept several gaps locked.
    #[tokio::test(start_paused = true)]
    async fn gaps_that_become_free_together_count_once() {
        let patience = Patience::new();
        for _ in 0..3 {
            patience.grow();
            advance(Duration::from_millis(50)).await;
        }
        assert_eq!(patience.get(), Some(FIRST * GROWTH));
    }
}
