//! P8: the store's clock decides, whatever time clients and servers think it is. Their clocks are
//! moved by libfaketime: by more than every age of the upkeep, either way, and while they run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::house::{House, Running, until};
use lockhouse::Timestamp;
use lockhouse_testkit::clock::Clock;
use lockhouse_testkit::place::Place;
use lockhouse_testkit::rows::{PermitRow, Rows};
use lockhouse_testkit::{audit, on_each_store, rows};
use nix::sys::signal::Signal;
use tokio::time::sleep;

on_each_store!(servers:
    nothing_expires_by_a_clock_that_is_fast,
    nothing_expires_by_a_clock_that_is_slow,
    a_clock_that_jumps_loses_no_hold_and_lets_nobody_in,
    permits_of_a_dead_holder_return_in_time_under_a_jumping_clock,
);

const JUMPS: &[&str] = &["+5h", "-5h", "+400d", "+0", "-400d"];

/// How late a busy machine may be.
const SLACK_US: i64 = 3_000_000;

/// redisson's sweep, where a client with a fast clock freed the permits of others.
async fn nothing_expires_by_a_clock_that_is_fast(place: Place) {
    nothing_expires_by_a_clock_that_is("+40d", place).await;
}

async fn nothing_expires_by_a_clock_that_is_slow(place: Place) {
    nothing_expires_by_a_clock_that_is("-40d", place).await;
}

/// Server and clients agree on the wrong time, and still the store's is the one that counts.
async fn nothing_expires_by_a_clock_that_is(offset: &str, place: Place) {
    let Some(clock) = Clock::off_by(offset).map(Arc::new) else {
        return;
    };
    let store = House::at(place.url()).under(&clock);
    let (_server, url) = serve(&store);
    let house = House::at(&url).under(&clock);
    house.text(&["create", "a", "9"]);
    house.text(&["resize", "a", "8"]);
    for (id, options) in [
        ("short", &["--ttl", "1s"][..]),
        ("long", &["--ttl", "1h"]),
        ("for ever", &[]),
        ("silent", &["--owner", "ann"]),
        ("heard", &["--owner", "bob", "--ttl", "2h"]),
        ("over", &[]),
    ] {
        house.text(&[&["acquire", "-s", "a", "--id", id], options].concat());
    }
    house.text(&["heartbeat", "ann", "--ttl", "1s"]);
    house.text(&["heartbeat", "bob", "--ttl", "1h"]);
    house.text(&["release", "over"]);
    until("the sweep frees what is due", || house.in_use("a") == 3);

    let swept = store.json(&["sweep"]);
    for done in ["lapsed", "stale", "purged", "history_purged"] {
        assert_eq!(swept[done], 0, "{done}: {swept}");
    }
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    assert_eq!(rows.capacity_changes.len(), 1);
    let now = Timestamp::now().as_microsecond();
    for (id, ttl_s, reason) in [
        ("short", Some(1), Some("expired")),
        ("long", Some(3600), None),
        ("for ever", None, None),
        ("silent", None, Some("owner_dead")),
        ("heard", Some(7200), None),
        ("over", None, Some("released")),
    ] {
        let row = row(&rows, id);
        assert_eq!(row.end_reason.as_deref(), reason, "{row:?}");
        let lasts = row.expires_at.map(|at| at - row.granted_at);
        assert_eq!(lasts, ttl_s.map(|s: i64| s * 1_000_000), "{row:?}");
        assert!(now.abs_diff(row.granted_at) < 60_000_000, "{row:?}");
    }

    // And what is old by the store's clock is old.
    sleep(Duration::from_millis(1_100)).await;
    let ages = [
        "--stale-after",
        "1s",
        "--purge-after",
        "1s",
        "--history-after",
        "1s",
    ];
    let swept = store.json(&[&["sweep"][..], &ages].concat());
    assert_eq!(swept["history_purged"], 1, "{swept}");
    let rows = rows::read(place.url()).await;
    let left: Vec<_> = ["short", "silent", "over"]
        .into_iter()
        .filter(|id| rows.permits.iter().any(|row| row.external_id == *id))
        .collect();
    assert_eq!(left, [""; 0]);
    until("it is stale", || {
        store.json(&["sweep", "--stale-after", "1s"]);
        house.in_use("a") == 2
    });
    place.clear().await;
}

/// One hold through a server and one past it, renewed three times a second: they outlast their
/// time to live again and again, and nobody is let in beside them.
async fn a_clock_that_jumps_loses_no_hold_and_lets_nobody_in(place: Place) {
    let Some(clock) = Clock::off_by("+0").map(Arc::new) else {
        return;
    };
    let store = House::at(place.url()).under(&clock);
    let (_server, url) = serve(&store);
    let served = House::at(&url).under(&clock);
    store.text(&["create", "a", "2"]);
    let run = [
        "run",
        "-s",
        "a",
        "--ttl",
        "1500ms",
        "--",
        "sh",
        "-c",
        "echo up; cat",
    ];
    let mut holders = [store.start(&run), served.start(&run)];
    for holder in &mut holders {
        assert_eq!(holder.line(), "up");
    }
    let _jumping = clock.keeps_jumping(JUMPS);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        for house in [&store, &served] {
            let done = house.done(&["acquire", "-s", "a"]);
            assert_eq!(done.code, 75, "somebody was let in: {done:?}");
        }
        let (asked, wait) = (Instant::now(), Duration::from_millis(300));
        let done = served.done(&["acquire", "-s", "a", "--wait", "300ms"]);
        assert_eq!(done.code, 75, "{done:?}");
        let waited = asked.elapsed();
        assert!(
            waited >= wait && waited < wait + Duration::from_secs(3),
            "{waited:?}"
        );
    }
    for mut holder in holders {
        holder.close_stdin();
        let done = holder.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    let mut of_a = rows.permits.iter().filter(|row| row.semaphore == "a");
    assert!(of_a.all(|row| row.end_reason.as_deref() == Some("released")));
    place.clear().await;
}

/// P10.
async fn permits_of_a_dead_holder_return_in_time_under_a_jumping_clock(place: Place) {
    let Some(clock) = Clock::off_by("+0").map(Arc::new) else {
        return;
    };
    let store = House::at(place.url()).under(&clock);
    store.text(&["create", "a", "1"]);
    let run = [
        "run",
        "-s",
        "a",
        "--id",
        "dead",
        "--ttl",
        "2s",
        "--",
        "sh",
        "-c",
        "echo up; cat",
    ];
    let mut holder = store.start(&run);
    assert_eq!(holder.line(), "up");
    let _jumping = clock.keeps_jumping(JUMPS);
    holder.signal(Signal::SIGKILL);
    store.text(&["acquire", "-s", "a", "--id", "next", "--wait", "15s"]);
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    let late = row(&rows, "next").granted_at - row(&rows, "dead").expires_at.unwrap();
    assert!(
        (0..=1_000_000 + SLACK_US).contains(&late),
        "{late} µs after the expiry"
    );
    place.clear().await;
}

/// SQLite's clock is the machine's. When that is set forward, holds expire early, and their
/// holders learn it when they next renew.
#[test]
fn when_the_machines_clock_is_set_forward_holds_on_sqlite_expire() {
    let Some(clock) = Clock::off_by("+0").map(Arc::new) else {
        return;
    };
    let house = House::on_a_store().under(&clock);
    let mut run = house.run(&["--id", "held", "--ttl", "3s"], "echo up; exec cat");
    assert_eq!(run.line(), "up");
    house.text(&["create", "b", "1"]);
    house.text(&["acquire", "-s", "b", "--id", "long", "--ttl", "10m"]);
    clock.jump("+1h");
    let next = house.json(&["acquire", "-s", "b", "--id", "next", "--ttl", "1h"]);
    assert_eq!(next["permits"][0]["fence"], 2);
    let ended = house.done(&["renew", "long"]);
    assert!(
        ended.code == 1 && ended.stderr.contains("expired"),
        "{ended:?}"
    );
    let lost = run.end();
    assert_eq!(lost.code, 76);
    assert!(lost.stderr.contains("was lost"), "{lost:?}");
}

/// Set back, they last longer; what goes on renewing goes on.
#[test]
fn when_the_machines_clock_is_set_back_holds_on_sqlite_last() {
    let Some(clock) = Clock::off_by("+1h").map(Arc::new) else {
        return;
    };
    let house = House::on_a_store().under(&clock);
    let mut run = house.run(&["--id", "held", "--ttl", "1s"], "echo up; cat");
    assert_eq!(run.line(), "up");
    house.text(&["create", "b", "1"]);
    house.text(&["acquire", "-s", "b", "--id", "first", "--ttl", "1s"]);
    clock.jump("+0");
    let waited = house.done(&["acquire", "-s", "b", "--wait", "2s"]);
    assert_eq!(waited.code, 75, "{waited:?}");
    assert_eq!(house.in_use("a"), 1);
    run.close_stdin();
    assert_eq!(run.end().code, 0);
    clock.jump("+61m");
    let next = house.json(&["acquire", "-s", "b"]);
    assert_eq!(next["permits"][0]["fence"], 2);
}

/// A server that sweeps and purges often, and its URL.
fn serve(house: &House) -> (Running, String) {
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let often = [
        "--sweep-every",
        "200ms",
        "--purge-every",
        "1s",
        "--history-every",
        "1s",
    ];
    let mut server = house.start(&[&serve[..], &often].concat());
    let line = server.line();
    let (_, url) = line.rsplit_once(" on ").expect(&line);
    (server, url.to_owned())
}

fn row<'a>(rows: &'a Rows, id: &str) -> &'a PermitRow {
    let found = rows.permits.iter().find(|row| row.external_id == id);
    found.unwrap_or_else(|| panic!("{id} is gone"))
}
