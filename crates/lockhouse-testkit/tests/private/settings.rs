//! Global settings that would change what a session reads or writes.

use lockhouse_testkit::private_server::PrivateServer;
use lockhouse_testkit::{conformance, store_conformance};

/// Settings of MySQL and MariaDB. Each server gets the settings that it knows.
const MYSQL: &[&str] = &[
    "SET GLOBAL max_join_size=1",
    "SET GLOBAL sql_big_selects=0",
    "SET GLOBAL sql_safe_updates=1",
    "SET GLOBAL sql_auto_is_null=1",
    "SET GLOBAL completion_type=1",
    "SET GLOBAL autocommit=0",
    "SET GLOBAL max_execution_time=1",
    "SET GLOBAL max_statement_time=0.001",
    "SET GLOBAL sql_mode='ANSI,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,\
     PAD_CHAR_TO_FULL_LENGTH,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES'",
    "SET GLOBAL time_zone='+05:30'",
    "SET GLOBAL transaction_isolation='SERIALIZABLE'",
    "SET GLOBAL tx_isolation='SERIALIZABLE'",
    "SET GLOBAL max_sort_length=64",
    "SET GLOBAL default_storage_engine=MyISAM",
    "SET GLOBAL enforce_storage_engine=InnoDB",
    "SET GLOBAL character_set_server=latin1",
    "SET GLOBAL character_set_client=latin1",
    "SET GLOBAL character_set_results=latin1",
    "SET GLOBAL collation_connection=latin1_swedish_ci",
    "SET GLOBAL unique_checks=0",
    "SET GLOBAL foreign_key_checks=0",
    "SET GLOBAL check_constraint_checks=0",
    "SET GLOBAL explicit_defaults_for_timestamp=0",
    "SET GLOBAL sql_generate_invisible_primary_key=1",
    "SET GLOBAL auto_increment_increment=7",
    "SET GLOBAL optimizer_switch='mrr=on,mrr_cost_based=off,derived_merge=off'",
    "SET GLOBAL lc_messages='de_DE'",
    "SET GLOBAL session_track_state_change=1",
    "SET GLOBAL innodb_lock_wait_timeout=1",
    "SET GLOBAL lock_wait_timeout=1",
    "SET GLOBAL sql_if_exists=1",
    "SET GLOBAL query_cache_type=1",
    "SET GLOBAL idle_transaction_timeout=1",
    "SET GLOBAL init_connect='SET timestamp=1'",
    "SET GLOBAL sql_select_limit=1",
];

/// Settings of every role on every database. The timeouts leave the test time to create its databases.
const POSTGRES: &[&str] = &[
    "ALTER SYSTEM SET statement_timeout='3s'",
    "ALTER SYSTEM SET transaction_timeout='3s'",
    "ALTER SYSTEM SET lock_timeout='1ms'",
    "ALTER SYSTEM SET idle_session_timeout='3s'",
    "ALTER SYSTEM SET default_transaction_isolation='serializable'",
    "ALTER SYSTEM SET default_transaction_deferrable=on",
    "ALTER SYSTEM SET datestyle='German'",
    "ALTER SYSTEM SET timezone='Asia/Kolkata'",
    "ALTER SYSTEM SET intervalstyle='sql_standard'",
    "ALTER SYSTEM SET bytea_output='escape'",
    "ALTER SYSTEM SET standard_conforming_strings=off",
    "ALTER SYSTEM SET backslash_quote=off",
    "ALTER SYSTEM SET transform_null_equals=on",
    "ALTER SYSTEM SET client_encoding='LATIN1'",
    "ALTER SYSTEM SET extra_float_digits=-15",
    "ALTER SYSTEM SET synchronous_commit=off",
    "ALTER SYSTEM SET enable_indexscan=off",
    "ALTER SYSTEM SET array_nulls=off",
    "SELECT pg_reload_conf()",
];

/// P1 to P7, and what upkeep reads and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn global_settings_of_mysql_change_no_result() {
    changes_no_result("mysql", MYSQL).await;
}

/// P1 to P7, and what upkeep reads and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn global_settings_of_mariadb_change_no_result() {
    changes_no_result("mariadb", MYSQL).await;
}

/// P1 to P7, and what upkeep reads and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn global_settings_of_mariadb_11_change_no_result() {
    changes_no_result("mariadb11", MYSQL).await;
}

/// P1 to P7, and what upkeep reads and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_postgres_server_change_no_result() {
    changes_no_result("postgres", POSTGRES).await;
}

/// P1 to P7, and what upkeep reads and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_postgres_18_server_change_no_result() {
    changes_no_result("postgres18", POSTGRES).await;
}

/// Runs each function on a separate database.
macro_rules! all_hold {
    ($server:expr, $suite:ident; $($rule:ident),+ $(,)?) => {$(
        let place = $server.place().await;
        $suite::$rule(&place).await;
        place.clear().await;
    )+};
}

async fn changes_no_result(server: &'static str, settings: &[&str]) {
    let Some(server) = PrivateServer::start(server) else {
        return;
    };
    server.set(settings).await;
    all_hold!(server, conformance;
        all_or_nothing_over_several_semaphores,
        any_order_of_names_is_free_of_deadlock,
        sixty_four_semaphores_in_one_request,
        weights_count,
        concurrent_releases_end_it_once,
        the_same_ask_from_many_at_once_is_granted_once,
        ids_are_compared_byte_by_byte,
        names_of_every_script_and_sign,
        the_largest_numbers_and_longest_names_fit,
        a_new_epoch_is_above_all_fences_of_before,
        fences_go_on_after_deletion,
        semaphores_are_listed_in_byte_order_by_pages,
        holders_are_listed_by_pages,
        history_is_newest_first,
        a_goodbye_frees_all_that_an_owner_holds,
        an_owner_of_many_is_freed_in_pieces,
        a_request_whose_time_has_passed_cannot_be_renewed,
        upkeep_ends_what_is_due_and_nothing_else,
    );
    all_hold!(server, store_conformance;
        a_recount_is_what_the_permits_add_up_to,
        requests_that_ended_before_an_age_are_purged,
        live_requests_are_listed_by_pages_and_filters,
    );
}
