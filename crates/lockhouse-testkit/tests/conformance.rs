//! Every store passes the suite, embedded and through a server.

use lockhouse_testkit::{conformance, place, store_conformance};

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
