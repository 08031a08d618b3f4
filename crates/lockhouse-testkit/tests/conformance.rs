//! Every store passes the suite, embedded and through a server.

use lockhouse_core::store::Batch;
use lockhouse_core::{Capacity, Command, Definition};
use lockhouse_testkit::place::Place;
use lockhouse_testkit::place::damage::{Damage, damage};
use lockhouse_testkit::place::writes::Writes;
use lockhouse_testkit::{conformance, on_each_store, place, store_conformance};

conformance!(memory, place::memory());
conformance!(sqlite, place::sqlite());
conformance!(mysql, place::mysql());
conformance!(mariadb, place::mariadb());
conformance!(mariadb11, place::mariadb11());
conformance!(postgres, place::postgres());
conformance!(postgres18, place::postgres18());
conformance!(redis, place::redis());
conformance!(valkey, place::valkey());
conformance!(server, place::server());

store_conformance!(memory_store, place::memory());
store_conformance!(sqlite_store, place::sqlite());
store_conformance!(mysql_store, place::mysql());
store_conformance!(mariadb_store, place::mariadb());
store_conformance!(mariadb11_store, place::mariadb11());
store_conformance!(postgres_store, place::postgres());
store_conformance!(postgres18_store, place::postgres18());
store_conformance!(redis_store, place::redis());
store_conformance!(valkey_store, place::valkey());

/// A rule that the macro does not name would never run.
#[test]
fn the_suites_name_every_rule() {
    for (named, mut written) in [
        (memory::RULES, conformance::all_rules()),
        (memory_store::RULES, store_conformance::all_rules()),
    ] {
        let mut named = named.to_vec();
        named.sort_unstable();
        written.sort_unstable();
        assert_eq!(named, written);
    }
}

/// A rule that holds also on a store that finds no damage would check nothing.
macro_rules! fail_without_damage {
    ($($rule:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[should_panic]
        async fn $rule() {
            let place = place::sqlite().await.unwrap().without_damage();
            store_conformance::$rule(&place).await;
        }
    )+};
}

mod without_damage_this_fails {
    use super::*;

    fail_without_damage! {
        a_recount_finds_a_wrong_count_and_a_fence_that_is_too_low,
        a_recount_finds_grants_beyond_the_capacity,
        a_recount_finds_a_fence_that_was_granted_twice,
        a_clock_that_was_set_back_breaks_no_promise,
        a_repair_corrects_the_counters_and_returns_what_was,
        a_repair_leaves_a_fence_that_is_ahead,
        a_repair_corrects_a_deleted_semaphore,
        each_torn_request_is_found,
        the_first_thousand_torn_requests_are_named_in_byte_order,
        permits_without_a_live_request_do_not_count,
        a_repair_files_requests_so_that_a_refusal_finds_them,
    }
}

on_each_store!(servers: a_row_that_is_written_with_its_old_values_is_seen);

/// A store may write a row although the batch does not change it.
async fn a_row_that_is_written_with_its_old_values_is_seen(place: Place) {
    let one = Capacity::new(1).unwrap();
    let define = Command::Define(Definition::new("a".parse().unwrap(), one));
    let store = place.store().await;
    store.transact(&Batch::new(vec![define])).await.unwrap();
    let mut writes = Writes::of(&place).await;
    assert!(damage(&place, &["a"], Damage::Capacity(1)).await);
    assert!(writes.any().await);
    place.clear().await;
}
