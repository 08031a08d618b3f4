//! The cost of a page of a listing depends on the page's rows, and not on how many requests are live.
//!
//! Very many requests hold one semaphore, and one request holds another. A client of a server reads pages, and for
//! comparison the state of a semaphore, which is one row.

use std::future::pending;

use lockhouse::{Lockhouse, SemaphoreName};
use tokio::net::TcpListener;

use super::{Durations, Report, bulk, ms, say, timed};
use crate::database::Database;
use crate::place::Place;

/// How many times as long as the read of one row a page of one row may take.
const TARGET_RATIO: f64 = 10.0;

/// The most rows of a page.
const PAGE: u32 = 1_000;

/// How large the run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many requests hold the first semaphore.
    pub rows: u32,
    /// How often each page is read.
    pub calls: u32,
}

/// The times of the calls.
#[derive(Debug)]
pub struct Outcome {
    /// The state of a semaphore: one row.
    pub row: Durations,
    /// A page of one request, from the listing of all.
    pub first: Durations,
    /// The only holder of the second semaphore.
    pub holder: Durations,
    /// A page of 1,000 requests.
    pub page: Durations,
    /// How many pages there are, and how long reading all takes.
    pub all: (u32, std::time::Duration),
}

impl Outcome {
    /// Whether the cost of a page depends only on its rows.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        let both =
            |took: &Durations| format!("{}, {}", ms(took.quantile(0.0)), ms(took.quantile(0.5)));
        report.say("the state of a semaphore, fastest and p50", both(&self.row));
        let row = self.row.quantile(0.5).as_secs_f64();
        for (what, took) in [
            ("a page of one request", &self.first),
            ("the one holder of a semaphore", &self.holder),
        ] {
            let ratio = took.quantile(0.5).as_secs_f64() / row;
            let target = format!("{TARGET_RATIO} times");
            report.aim(what, both(took), target, ratio <= TARGET_RATIO);
        }
        report.say("a page of 1,000 requests", both(&self.page));
        let (pages, took) = self.all;
        report.say(format!("all, in {pages} pages"), ms(took));
        report
    }
}

/// Measures reads.
///
/// # Panics
/// If a page lacks rows.
pub async fn run(place: &Place, size: Size) -> Outcome {
    let lockhouse = place.client().await;
    lockhouse.define("a", size.rows).await.unwrap();
    lockhouse.define("b", 1).await.unwrap();
    let _held = lockhouse.semaphore("b").acquire().await.unwrap();
    let ((), took) = timed(hold(place.url(), size.rows)).await;
    say(format_args!("{} requests held in {}", size.rows, ms(took)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(lockhouse_server::serve(
        lockhouse,
        listener,
        pending::<()>(),
    ));
    let client = &Lockhouse::connect(&url).await.unwrap();
    let b = &SemaphoreName::parse("b").unwrap();
    let held = async |on: Option<&SemaphoreName>, limit: u32| {
        let held = client.holders(on, None, limit).await.unwrap();
        held.requests.len()
    };
    let row = often(size.calls, async || {
        assert_eq!(
            client.status("a").await.unwrap().semaphore.in_use,
            size.rows
        );
    });
    let row = row.await;
    let first = often(size.calls, async || assert_eq!(held(None, 1).await, 1)).await;
    let holder = often(size.calls, async || assert_eq!(held(Some(b), 1).await, 1)).await;
    let full = PAGE.min(size.rows + 1) as usize;
    let page = often(size.calls, async || {
        assert_eq!(held(None, PAGE).await, full)
    })
    .await;
    let all = timed(read_all(client, size.rows + 1)).await;
    serving.abort();
    Outcome {
        row,
        first,
        holder,
        page,
        all,
    }
}

async fn often(calls: u32, call: impl AsyncFn()) -> Durations {
    let mut took = Vec::new();
    for _ in 0..calls {
        took.push(timed(call()).await.1);
    }
    took.into_iter().collect()
}

/// How many pages all requests have.
async fn read_all(client: &Lockhouse, requests: u32) -> u32 {
    let (mut pages, mut seen, mut after) = (0, 0, None);
    loop {
        let held = client.holders(None, after, PAGE).await.unwrap();
        pages += 1;
        seen += held.requests.len();
        after = held.next;
        if after.is_none() {
            assert_eq!(seen, requests as usize);
            return pages;
        }
    }
}

async fn hold(url: &str, rows: u32) {
    let mut database = Database::open(url).await;
    let (ago, a) = (database.seconds_ago("60"), bulk::id_of("a"));
    let requests = format!(
        "lockhouse_permit_request (id, external_id, owner, state, ttl_ms, expires_at, created_at, \
         only_semaphore_id) SELECT n + 2, {}, NULL, 'ACQUIRED', NULL, NULL, {ago}, {a}",
        bulk::scattered("held")
    );
    let permits = format!(
        "lockhouse_permit (permit_request_id, semaphore_id, count, fence) SELECT n + 2, {a}, 1, n + 1"
    );
    bulk::insert(&mut database, rows, &[requests, permits]).await;
    let counters =
        format!("UPDATE lockhouse_semaphore SET in_use = {rows}, fence = {rows} WHERE name = 'a'");
    database.run(&counters).await;
}
