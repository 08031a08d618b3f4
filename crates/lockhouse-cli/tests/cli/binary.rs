//! The program that these tests run.

use std::env;

/// `LOCKHOUSE_TEST_BINARY`: what the README's first command builds, which `scripts/test` sets. Otherwise what cargo
/// built for this test, maybe with features that other crates of the workspace switched on.
///
/// # Panics
/// If it is not set and `LOCKHOUSE_TEST_FULL` is: a full run tests what ships.
pub(crate) fn lockhouse() -> String {
    if let Ok(program) = env::var("LOCKHOUSE_TEST_BINARY") {
        return program;
    }
    assert!(
        env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
        "LOCKHOUSE_TEST_BINARY is not set, and a full run tests the program that ships; use scripts/test"
    );
    env!("CARGO_BIN_EXE_lockhouse").to_owned()
}
