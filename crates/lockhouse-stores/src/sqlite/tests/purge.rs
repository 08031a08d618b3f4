use std::time::Duration;

use lockhouse_core::store::{Listing as _, Purge, Upkeep as _};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn count(place: &Place, table: &str) -> u32 {
    let sql = format!("SELECT count(*) FROM {table}");
    let connection = place.connect();
    connection.query_row(&sql, (), |row| row.get(0)).unwrap()
}

/// Five that ended in 1970, one that ended now, one live.
async fn place_with_history() -> (Place, Sqlite) {
    let (place, store) = Place::migrated().await;
    let mut commands = vec![define("a", 9), define("b", 9), acquire("live", "a")];
    for i in 0..6 {
        let both = ["a", "b"].map(|semaphore| (name(semaphore), Count::ONE));
        let ask = Ask::new(id(&format!("r-{i}")), both).unwrap();
        commands.push(Command::acquire(ask));
    }
    commands.extend((0..6).map(|i| Command::release(id(&format!("r-{i}")))));
    run_all(&store, commands).await;
    let set_back = "UPDATE lockhouse_permit_request SET released_at = substr(external_id, 3)
        WHERE state = 'RELEASED' AND external_id <> 'r-5'";
    place.connect().execute(set_back, ()).unwrap();
    (place, store)
}

#[tokio::test]
async fn requests_that_ended_long_ago_go_with_their_permits_oldest_first() {
    let (place, store) = place_with_history().await;
    let what = Purge::Requests { age: DAY };
    assert_eq!(store.purge(what, 3).await.unwrap(), 3);
    for (old, there) in [("r-0", false), ("r-2", false), ("r-3", true)] {
        let found = store.request(&id(old)).await.unwrap();
        assert_eq!(found.is_some(), there, "{old}");
    }
    assert_eq!(count(&place, "lockhouse_permit"), 3 * 2 + 1);
    assert_eq!(store.purge(what, 3).await.unwrap(), 2);
    assert_eq!(store.purge(what, 3).await.unwrap(), 0);
    for left in ["r-5", "live"] {
        assert!(store.request(&id(left)).await.unwrap().is_some(), "{left}");
    }
    assert_eq!(count(&place, "lockhouse_permit"), 2 + 1);
    assert!(store.recount().await.unwrap().findings().is_empty());
    let none = Purge::Requests { age: Duration::MAX };
    assert_eq!(store.purge(none, 9).await.unwrap(), 0);
    let all = Purge::Requests {
        age: Duration::ZERO,
    };
    assert_eq!(store.purge(all, 9).await.unwrap(), 1);
    assert_eq!(count(&place, "lockhouse_permit_request"), 1, "the live one");
}

/// P7
#[tokio::test]
async fn the_row_of_a_semaphore_that_was_deleted_long_ago_goes_and_its_fences_do_not_come_back() {
    let (place, store) = place_with_history().await;
    run_all(
        &store,
        [define("b", 3), Command::Delete { name: name("b") }],
    )
    .await;
    let set_back = "UPDATE lockhouse_semaphore SET deleted_at = 1 WHERE name = 'b'";
    place.connect().execute(set_back, ()).unwrap();
    let what = Purge::Semaphores { age: DAY };
    assert_eq!(store.purge(what, 9).await.unwrap(), 0, "requests are kept");
    let requests = Purge::Requests { age: DAY };
    assert_eq!(store.purge(requests, 9).await.unwrap(), 5);
    assert_eq!(store.purge(what, 9).await.unwrap(), 1);
    assert_eq!(store.purge(what, 9).await.unwrap(), 0);
    let epoch = store.semaphores_ever(&first(9)).await.unwrap();
    let names: Vec<_> = epoch.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["a", "lockhouse:epoch"]);
    run(&store, define("b", 1)).await.unwrap().unwrap();
    let again = granted(run(&store, acquire("again", "b")).await);
    // Six grants and a resize came before.
    assert_eq!(again.permits[0].fence, 8);
}
