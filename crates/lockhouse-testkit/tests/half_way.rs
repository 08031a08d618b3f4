//! The database refuses a batch half-way, after some of its rows were written. Each caller gets the true answer to its call
//! (P6, P9), and no row of the batch stays (P2).

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Ask, Count, Error, ExternalId, Lockhouse, SemaphoreName};
use lockhouse_testkit::database::Database;
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;

on_each_store! { sql:
    each_command_of_a_batch_that_fails_halfway_has_the_right_answer,
}

/// The value that the database refuses.
const REFUSED: u32 = 3;

async fn each_command_of_a_batch_that_fails_halfway_has_the_right_answer(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 20).await.unwrap();
    ask(&lockhouse, "before", 1).await.unwrap();
    let mut database = Database::open(place.url()).await;
    refuse(&mut database).await;

    let counts = [1, 1, REFUSED, 1, 2, REFUSED, 1, 1];
    let asks = counts.into_iter().enumerate();
    let asks = asks.map(|(i, count)| {
        let lockhouse = &lockhouse;
        async move { ask(lockhouse, &format!("r{i}"), count).await }
    });
    let (asked, released) =
        tokio::join!(join_all(asks), async { lockhouse.release("before").await });

    assert!(released.unwrap().now);
    for (i, (count, answer)) in counts.into_iter().zip(asked).enumerate() {
        let request = lockhouse.find(format!("r{i}")).await;
        match count {
            REFUSED => {
                let code = answer.unwrap_err().code();
                assert_eq!(code.as_str(), "internal", "r{i}");
                assert_eq!(request.unwrap_err().code().as_str(), "unknown_request");
            }
            _ => {
                answer.unwrap();
                let held = request.unwrap().permits[0].count;
                assert_eq!(held, Count::new(count).unwrap(), "r{i}");
            }
        }
    }
    assert_eq!(lockhouse.verify().await.unwrap(), []);
    // Refused batches took no permits and no fences.
    let semaphore = lockhouse.status("s").await.unwrap().semaphore;
    assert_eq!((semaphore.in_use, semaphore.fence), (7, 7));
    place.clear().await;
}

async fn ask(lockhouse: &Lockhouse, id: &str, count: u32) -> Result<(), Error> {
    let name = SemaphoreName::parse("s")?;
    let ask = Ask::new(ExternalId::parse(id)?, [(name, Count::new(count)?)])?;
    lockhouse.acquire(ask, Duration::ZERO).await?;
    Ok(())
}

/// Makes the database refuse rows of permits with the count [`REFUSED`], after it has written their requests' rows.
async fn refuse(database: &mut Database) {
    let when = format!("NEW.count={REFUSED}");
    let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON lockhouse_permit";
    let sql = match database {
        Database::Sqlite(_) => {
            format!("{trigger} WHEN {when} BEGIN SELECT RAISE(ABORT, 'refused'); END")
        }
        Database::MySql(_) => format!(
            "{trigger} FOR EACH ROW BEGIN IF {when} THEN SIGNAL SQLSTATE '45000'; END IF; END"
        ),
        Database::Postgres(_) => format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF {when} THEN \
             RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END$$; \
             {trigger} FOR EACH ROW EXECUTE FUNCTION refuse()"
        ),
    };
    database.run(&sql).await;
}
