//! Every store, and the way through a server, does what the suite says.

use lockhouse_testkit::{conformance, place};

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

/// A rule that was written and not named would never run.
#[test]
fn the_suite_names_every_rule() {
    let mut named: Vec<String> = memory::RULES
        .iter()
        .map(|rule| (*rule).to_owned())
        .collect();
    let mut written = lockhouse_testkit::conformance::all_rules();
    named.sort();
    written.sort();
    assert_eq!(named, written);
}
