//! How long the database takes to commit to a table that Lockhouse does not use.

use std::time::{Duration, Instant};

use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::Place;
use tokio::time::sleep;

/// Commits on a separate table for `time`, and returns how long the longest commit took.
pub(crate) async fn longest_plain_commit(place: &Place, time: Duration) -> Duration {
    let mut session = Database::open(place.url()).await;
    session.run("CREATE TABLE plain (number INT)").await;
    session.run("INSERT INTO plain VALUES (0)").await;
    let (until, mut longest) = (Instant::now() + time, Duration::ZERO);
    while Instant::now() < until {
        let began = Instant::now();
        session.run("UPDATE plain SET number = number + 1").await;
        longest = longest.max(began.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    session.run("DROP TABLE plain").await;
    longest
}
