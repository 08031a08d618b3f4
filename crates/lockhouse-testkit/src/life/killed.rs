//! All holders are killed at once while others wait for their permits (P1, P10).
//!
//! Every time is by the store's clock, from its rows: the expiry of the killed holders' requests, and the grants of the
//! waiters.

use std::path::Path;
use std::time::Duration;

use super::processes::Process;
use super::{Report, say};
use crate::place::Place;
use crate::rows::{PermitRow, Rows};
use crate::{audit, rows};

const SEMAPHORE: &str = "boats";

/// How soon after the expiry all waiters must be served.
const TARGET: Duration = Duration::from_secs(3);

/// How large the run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many permits are held, each by a separate request. There are as many waiters.
    pub holders: u32,
    /// How many processes hold the permits, and are killed.
    pub holding_processes: u32,
    /// How many processes wait for those permits.
    pub waiting_processes: u32,
    /// The holders' time to live.
    pub ttl: Duration,
    /// How long the holders hold before they are killed.
    pub well_for: Duration,
}

/// The measurements.
#[derive(Debug)]
pub struct Outcome {
    /// From the last expiry to the last grant to a waiter.
    pub last_served: Duration,
    /// The longest time from the nth expiry to the nth grant.
    pub longest: Duration,
    /// The median of the times from the nth expiry to the nth grant.
    pub median: Duration,
}

impl Outcome {
    /// Whether all waiters were served in time.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        let met = |took: Duration| took <= TARGET;
        let seconds = |took: Duration| format!("{:.2} s", took.as_secs_f64());
        let (last, longest) = (self.last_served, self.longest);
        report.aim(
            "from the last expiry to the last served",
            seconds(last),
            "3 s",
            met(last),
        );
        report.aim(
            "longest from nth expiry to nth served",
            seconds(longest),
            "3 s",
            met(longest),
        );
        report.say("median of these", seconds(self.median));
        report
    }
}

/// Kills the holders. `program` is `life`.
///
/// # Panics
/// If a permit was granted that was not free, or a waiter was never served.
pub async fn run(place: &Place, program: &Path, size: Size) -> Outcome {
    let (url, ttl_ms) = (place.url(), size.ttl.as_millis().to_string());
    let lockhouse = place.client().await;
    lockhouse.define(SEMAPHORE, size.holders).await.unwrap();
    let hold = |(i, share): (usize, u32)| {
        let (prefix, share) = (format!("holder-{i}"), share.to_string());
        Process::start(program, &["hold", url, SEMAPHORE, &prefix, &share, &ttl_ms])
    };
    let holding = shares(size.holders, size.holding_processes);
    // They start one after the other: a hundred processes that start at once keep each other from renewing.
    let mut holders = Vec::new();
    for mut holder in holding.map(hold) {
        assert_eq!(holder.line().await, "held");
        holders.push(holder);
    }
    say(format_args!(
        "{} processes hold {} permits",
        size.holding_processes, size.holders
    ));

    let wait = |(i, share): (usize, u32)| {
        let (prefix, share) = (format!("waiter-{i}"), share.to_string());
        Process::start(program, &["wait", url, SEMAPHORE, &prefix, &share])
    };
    let waiting = shares(size.holders, size.waiting_processes);
    let mut waiters = Vec::new();
    for mut waiter in waiting.clone().map(wait) {
        assert_eq!(waiter.line().await, "waiting");
        waiters.push(waiter);
    }
    tokio::time::sleep(size.well_for).await;
    let rows = rows::read(url).await;
    assert!(
        rows.permits.iter().all(is_held),
        "a live holder lost its permit: this machine can't renew so many in time"
    );

    for holder in &mut holders {
        holder.kill();
    }
    say("they are killed");
    for (i, share) in waiting {
        for _ in 0..share {
            assert_eq!(waiters[i].line().await, "served");
        }
    }
    say("all waiters are served");
    let rows = rows::read(url).await;
    for waiter in waiters {
        assert!(waiter.end().await.0);
    }
    assert_eq!(audit::violations(&rows), [""; 0]);
    assert_eq!(audit::violations(&rows::read(url).await), [""; 0]);
    assert_eq!(
        lockhouse.status(SEMAPHORE).await.unwrap().semaphore.in_use,
        0
    );
    outcome(&rows)
}

/// The share of `all` for each of `parts`.
fn shares(all: u32, parts: u32) -> impl Iterator<Item = (usize, u32)> + Clone {
    let share = move |part| all / parts + u32::from(part < all % parts);
    (0..parts).map(share).enumerate()
}

fn is_held(row: &PermitRow) -> bool {
    row.released_at.is_none() && row.external_id.starts_with("holder-")
}

fn outcome(rows: &Rows) -> Outcome {
    let (mut expired, mut served) = (Vec::new(), Vec::new());
    for row in &rows.permits {
        if row.external_id.starts_with("holder-") {
            assert_eq!(row.end_reason.as_deref(), Some("expired"), "{row:?}");
            expired.push(row.expires_at.unwrap());
        } else {
            served.push(row.granted_at);
        }
    }
    expired.sort_unstable();
    served.sort_unstable();
    assert_eq!(expired.len(), served.len());
    let late = |(expired, served): (&i64, &i64)| {
        let late = u64::try_from(served - expired);
        Duration::from_micros(late.expect("no waiter is served before a permit is free"))
    };
    let late: super::Durations = expired.iter().zip(&served).map(late).collect();
    Outcome {
        last_served: Duration::from_micros(
            served.last().unwrap().abs_diff(*expired.last().unwrap()),
        ),
        longest: late.quantile(1.0),
        median: late.quantile(0.5),
    }
}
