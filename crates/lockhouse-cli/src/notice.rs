//! Tells a terminal what a command waits for.

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use lockhouse::{Ask, Lockhouse, SemaphoreStatus};
use tokio::time::timeout;

use crate::failure::word;
use crate::output::{Format, complain};

/// Shorter waits go unsaid.
const UNSAID: Duration = Duration::from_millis(500);

/// What `acquiring` comes to. If it takes a while, and a person may be looking, says on stderr what
/// it waits for.
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
        () = tell(lockhouse, ask) => {}
    }
    acquiring.await
}

/// Says where the permits are lacking. If that cannot be found out, the wait alone is said.
async fn tell(lockhouse: &Lockhouse, ask: &Ask) {
    let mut lacking = Vec::new();
    for (name, count) in ask.permits() {
        let Ok(status) = lockhouse.status(name).await else {
            break;
        };
        if status.semaphore.available() < count.value() {
            lacking.push(line(&status));
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
}

fn line(status: &SemaphoreStatus) -> String {
    let SemaphoreStatus { semaphore, waiting } = status;
    let (name, capacity) = (&semaphore.name, semaphore.capacity.value());
    if capacity == 0 {
        let name_word = word(name.as_str());
        return format!(
            "lockhouse: waiting for \"{name}\", which is closed; lockhouse resize {name_word} CAPACITY opens it"
        );
    }
    let in_use = semaphore.in_use;
    // All who wait at one server, or in this process; which of them come first is not known here.
    let others = match waiting.saturating_sub(1) {
        0 => String::new(),
        1 => ", 1 other waits".into(),
        others => format!(", {others} others wait"),
    };
    format!("lockhouse: waiting for \"{name}\": {in_use} of {capacity} permits in use{others}")
}
