use lockhouse_core::store::{Kind, Listing as _, Upkeep as _};

use super::*;

#[tokio::test]
async fn an_answer_is_what_is_read_later() {
    let (_place, store) = Place::migrated().await;
    let defined = run(&store, define("a", 5)).await.unwrap().unwrap();
    let read = store.semaphore(&name("a")).await.unwrap().unwrap();
    assert_eq!(
        defined,
        Reply::Defined {
            semaphore: read,
            created: true
        }
    );

    let mut ask = Ask::new(id("r"), [(name("a"), Count::new(2).unwrap())]).unwrap();
    ask.owner = Some(owner("host 7"));
    let request = granted(run(&store, Command::acquire(ask)).await);
    assert_eq!(store.request(&id("r")).await.unwrap().unwrap(), request);

    let ttl = Some(Ttl::from_ms(1_500).unwrap());
    let renew = Command::Renew {
        external_id: id("r"),
        ttl,
        by: None,
    };
    let renewed = run(&store, renew).await.unwrap().unwrap();
    let read = store.request(&id("r")).await.unwrap().unwrap();
    assert_eq!(renewed, Reply::Renewed(read));

    let by = Some(owner("operator"));
    let force = end("r", Cause::Forced { by: by.clone() });
    let ended = run(&store, force).await.unwrap().unwrap();
    let read = store.request(&id("r")).await.unwrap().unwrap();
    assert_eq!(read.ended_by, by);
    let told = Reply::Ended {
        decided_at: read.released_at().unwrap(),
        request: read,
        now: true,
    };
    assert_eq!(ended, told);
    assert!(
        store
            .holders(&Holders::on(name("a")), &first(9))
            .await
            .unwrap()
            .requests
            .is_empty()
    );
}

#[tokio::test]
async fn a_large_batch_is_one_commit() {
    let (_place, store) = Place::migrated().await;
    let semaphores: Vec<_> = (0..64).map(|i| format!("s-{i:02}")).collect();
    let defined = semaphores.iter().map(|name| define(name, 1_000)).collect();
    store.transact(&Batch::new(defined)).await.unwrap();
    let asks = (0..600).map(|i| {
        let all = semaphores
            .iter()
            .map(|semaphore| (name(semaphore), Count::ONE));
        Command::acquire(Ask::new(id(&format!("r-{i}")), all).unwrap())
    });
    let outcomes = store.transact(&Batch::new(asks.collect())).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
    let released = (0..600).map(|i| Command::release(id(&format!("r-{i}"))));
    store
        .transact(&Batch::new(released.collect()))
        .await
        .unwrap();
    let after = store.semaphores(None, &first(100)).await.unwrap();
    assert!(
        after
            .iter()
            .all(|semaphore| semaphore.in_use == 0 && semaphore.fence == 600)
    );
}

#[tokio::test]
async fn a_row_that_can_not_be_read_is_an_error_that_names_its_column() {
    for (damage, column) in [
        (
            "UPDATE lockhouse_semaphore SET name = ' a'",
            "lockhouse_semaphore.name",
        ),
        (
            "UPDATE lockhouse_permit SET count = 1 << 40",
            "lockhouse_permit.count",
        ),
        (
            "UPDATE lockhouse_permit_request SET ttl_ms = 0",
            "lockhouse_permit_request.ttl_ms",
        ),
        (
            "UPDATE lockhouse_permit_request SET owner = ''",
            "lockhouse_permit_request.owner",
        ),
        (
            "UPDATE lockhouse_permit_request SET ended_by = ''",
            "lockhouse_permit_request.ended_by",
        ),
        (
            "UPDATE lockhouse_permit_request SET expires_at = 9223372036854775807",
            "lockhouse_permit_request.expires_at",
        ),
        (
            "UPDATE lockhouse_permit_request
             SET state = 'RELEASED', end_reason = 'whim', released_at = 0",
            "lockhouse_permit_request.end_reason",
        ),
    ] {
        let (place, store) = Place::migrated().await;
        run(&store, define("a", 1)).await.unwrap().unwrap();
        granted(run(&store, acquire("r", "a")).await);
        place.connect().execute(damage, ()).unwrap();
        for error in [
            store.request(&id("r")).await.unwrap_err(),
            run(&store, Command::release(id("r"))).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Rejected, "{error}");
            assert!(error.to_string().contains(column), "{error}");
        }
    }
}

/// P5. Statements insert 32, 8, 2 or one row.
#[tokio::test]
async fn each_of_many_that_are_granted_at_once_has_its_own_permits() {
    for many in [1, 2, 3, 9, 33, 34, 76] {
        let (_place, store) = Place::migrated().await;
        let mut commands = vec![define("a", 1_000), define("b", 1_000), define("c", 1_000)];
        commands.extend((0..many).map(|i| {
            let counts = [("a", 3), ("b", 2), ("c", 5)].into_iter().skip(i % 3);
            let permits = counts.map(|(semaphore, by)| {
                let count = Count::new(1 + i as u32 % by).unwrap();
                (name(semaphore), count)
            });
            Command::acquire(Ask::new(id(&format!("r-{i}")), permits).unwrap())
        }));
        let outcomes = store.transact(&Batch::new(commands)).await.unwrap();
        for outcome in outcomes.into_iter().skip(3) {
            let request = granted(Ok(outcome));
            let read = store.request(&request.external_id).await.unwrap();
            assert_eq!(read, Some(request));
        }
        assert!(store.recount().await.unwrap().findings().is_empty());
    }
}

#[tokio::test]
async fn a_session_that_can_not_be_read_is_an_error_that_names_its_column() {
    let (place, store) = Place::migrated().await;
    run_all(&store, [heartbeat("o", 1_000)]).await;
    let damage = "UPDATE lockhouse_owner_session SET ttl_ms = 1 << 60";
    place.connect().execute(damage, ()).unwrap();
    let goodbye = Command::Goodbye { owner: owner("o") };
    let error = run(&store, goodbye).await.unwrap_err();
    assert!(
        error.to_string().contains("lockhouse_owner_session.ttl_ms"),
        "{error}"
    );
}
