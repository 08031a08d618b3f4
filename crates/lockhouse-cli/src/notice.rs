//! Shows on a terminal what a command waits for.

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use lockhouse::{Ask, Error, Lockhouse, SemaphoreStatus};
use tokio::time::{sleep, timeout};

use crate::complaint::complain;
use crate::failure::word;
use crate::format::Format;

/// Shorter waits are not reported.
const UNSAID: Duration = Duration::from_millis(500);

/// After this much longer, the waiters of other processes are listed.
const LISTED: Duration = Duration::from_secs(1);

/// How often a new place in the line is reported at most.
const AGAIN: Duration = Duration::from_secs(5);

/// The result of `acquiring`. If it takes a while and stderr is a terminal, reports there what it
/// waits for, and how many waiters are ahead.
pub(crate) async fn while_waiting<T>(
    acquiring: impl Future<Output = T>,
    lockhouse: &Lockhouse,
    ask: &Ask,
    output: Format,
) -> T {
    let mut acquiring = pin!(acquiring);
    if output == Format::Json || !io::stderr().is_terminal() {
        return acquiring.await;
    }
    if let Ok(done) = timeout(UNSAID, &mut acquiring).await {
        return done;
    }
    tokio::select! {
        biased;
        done = &mut acquiring => return done,
        () = keep_telling(lockhouse, ask) => {}
    }
    acquiring.await
}

async fn keep_telling(lockhouse: &Lockhouse, ask: &Ask) {
    let mut said = tell(lockhouse, ask).await;
    let mut pause = LISTED;
    loop {
        sleep(pause).await;
        pause = AGAIN;
        // If the places cannot be read, nothing new is reported.
        let Ok(Some(places)) = places(lockhouse, ask).await else {
            continue;
        };
        let ahead: Vec<_> = places.iter().map(|(_, ahead)| *ahead).collect();
        if said.as_ref() == Some(&ahead) {
            continue;
        }
        for (status, ahead) in &places {
            if *ahead > 0 || lacks(status, ask) {
                let ahead = match ahead {
                    0 => ", next in line".into(),
                    ahead => format!(", {ahead} ahead"),
                };
                complain(&line(status, &ahead));
            }
        }
        said = Some(ahead);
    }
}

/// The semaphores of `ask`, each with the number of waiters ahead. `None` if that is not known.
async fn places(
    lockhouse: &Lockhouse,
    ask: &Ask,
) -> Result<Option<Vec<(SemaphoreStatus, usize)>>, Error> {
    let mut places = Vec::new();
    for (name, _) in ask.permits() {
        let status = lockhouse.status(name).await?;
        let waiting = lockhouse.waiting(name).await?;
        let is_own = |waiter: &lockhouse::Waiter| waiter.external_id == ask.external_id;
        match waiting.iter().position(is_own) {
            Some(ahead) => places.push((status, ahead)),
            None => return Ok(None),
        }
    }
    Ok(Some(places))
}

/// Reports which semaphores lack permits, or only the wait if they cannot be read. Returns the
/// reported numbers of waiters ahead, if they are known to be 0.
async fn tell(lockhouse: &Lockhouse, ask: &Ask) -> Option<Vec<usize>> {
    let (mut lacking, mut ahead) = (Vec::new(), Some(Vec::new()));
    for (name, _) in ask.permits() {
        let Ok(status) = lockhouse.status(name).await else {
            ahead = None;
            break;
        };
        // It is not known here which of them come first.
        let others = match status.waiting.saturating_sub(1) {
            0 => String::new(),
            1 => ", 1 other waits".into(),
            others => format!(", {others} others wait"),
        };
        match &mut ahead {
            Some(ahead) if others.is_empty() => ahead.push(0),
            _ => ahead = None,
        }
        if lacks(&status, ask) {
            lacking.push(line(&status, &others));
        }
    }
    if lacking.is_empty() {
        let names = ask.permits().map(|(name, _)| format!("\"{name}\""));
        let names: Vec<_> = names.collect();
        lacking.push(format!("lockhouse: waiting for {}", names.join(", ")));
    }
    for line in lacking {
        complain(&line);
    }
    ahead
}

fn lacks(status: &SemaphoreStatus, ask: &Ask) -> bool {
    let semaphore = &status.semaphore;
    let mut permits = ask.permits();
    permits.any(|(name, count)| *name == semaphore.name && semaphore.available() < count.value())
}

fn line(status: &SemaphoreStatus, others: &str) -> String {
    let semaphore = &status.semaphore;
    let (name, capacity) = (&semaphore.name, semaphore.capacity.value());
    if capacity == 0 {
        let name_word = word(name.as_str());
        return format!(
            "lockhouse: waiting for \"{name}\", which is closed{others}; lockhouse resize {name_word} CAPACITY opens it"
        );
    }
    let in_use = semaphore.in_use;
    format!("lockhouse: waiting for \"{name}\": {in_use} of {capacity} permits in use{others}")
}
