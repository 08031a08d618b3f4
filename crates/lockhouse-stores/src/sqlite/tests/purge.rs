use std::time::Duration;

use lockhouse_core::store::{Maintenance as _, Purge};

use super::*;

/// `ON DELETE CASCADE`
#[tokio::test]
async fn the_rows_of_the_permits_of_a_purged_request_go_with_it() {
    let (place, store) = Place::migrated().await;
    let both = ["a", "b"].map(|semaphore| (name(semaphore), Count::ONE));
    let commands = [
        define("a", 9),
        define("b", 9),
        acquire("live", "a"),
        Command::acquire(Ask::new(id("ended"), both).unwrap()),
        Command::release(id("ended")),
    ];
    run_all(&store, commands).await;
    let permits = || -> u32 {
        let count = "SELECT count(*) FROM lockhouse_permit";
        let counted = place.connect().query_row(count, (), |row| row.get(0));
        counted.unwrap()
    };
    assert_eq!(permits(), 3);
    let age = Duration::ZERO;
    let purged = store.purge(Purge::Requests { age }, 9).await.unwrap();
    assert_eq!((purged, permits()), (1, 1));
}
