//! The rules of every store for direct calls of its traits, one function for each rule. The rules of
//! [`conformance`](mod@crate::conformance) use a store only through a client, which never calls twice or out of turn.
//!
//! [`store_conformance!`](crate::store_conformance!) makes a test of each rule on one store. The rules need no access to the
//! rows: they make rows old by short TTLs, and by ages that begin between two calls.

mod batches;
mod counting;
mod listing;
mod migration;
mod owners;
mod past;
mod shown;
mod to_end;
mod tokens;
mod words;

pub use batches::*;
pub use counting::*;
pub use listing::*;
pub use migration::*;
pub use owners::*;
pub use past::*;
pub use shown::*;
pub use to_end::*;
pub use tokens::*;

use crate::conformance::rules_in;

/// Makes a module of tests: each rule of the suite on one store.
#[macro_export]
macro_rules! store_conformance {
    ($name:ident, $place:expr) => {
        $crate::conformance_of! { store_conformance, $name, $place;
            // Store
            a_held_request_is_found_in_a_full_semaphore_by_a_batch_that_changes_others,
            requests_that_differ_in_every_column_are_written_by_one_batch,
            // Upkeep: due
            lapsed_requests_are_found_by_their_time_and_their_owners_session,
            lapsed_requests_are_found_on_the_semaphores_asked_for,
            a_look_finds_at_most_its_limit_and_each_request_once,
            lapsed_requests_that_ended_are_not_found_again,
            live_requests_of_an_owner_are_found,
            // Upkeep: stale
            the_oldest_requests_without_a_ttl_are_stale,
            stale_requests_are_found_piece_by_piece,
            // Upkeep: owners
            owners_of_live_requests_are_listed_once_in_byte_order,
            a_session_is_checked_again_before_its_owners_request_ends,
            a_goodbye_ends_a_session_once,
            the_caller_that_ended_a_request_is_kept,
            // Upkeep: purge
            requests_that_ended_before_an_age_are_purged,
            a_purge_deletes_at_most_its_limit_oldest_first,
            a_purged_id_can_be_granted_again_under_a_higher_fence,
            capacity_changes_before_an_age_are_purged,
            lapsed_sessions_are_purged_unless_their_owner_holds_something,
            // Upkeep: recount and repair
            a_recount_is_what_the_permits_add_up_to,
            a_recount_sees_one_moment_beside_other_calls,
            a_repair_changes_nothing_that_is_right,
            // Listing
            deleted_semaphores_are_listed_among_all_that_ever_were,
            live_requests_are_listed_by_pages_and_filters,
            // WaitingList
            a_process_shows_replaces_and_deletes_its_waiters,
            lists_of_waiters_are_forgotten_by_age,
            // Tokens
            a_token_is_replaced_only_after_its_end,
            tokens_are_listed_page_by_page,
            owners_in_use_have_a_session_or_a_live_request,
            // Migration, Store::ready, Notification
            many_migrations_at_once_leave_one_schema,
            a_migration_keeps_what_is_there,
            a_notification_that_is_dropped_leaves_the_store_usable,
        }
    };
}

/// The names of all the rules in this folder's files, to compare with what the macro names.
pub fn all_rules() -> Vec<String> {
    rules_in(&[
        include_str!("batches.rs"),
        include_str!("counting.rs"),
        include_str!("listing.rs"),
        include_str!("migration.rs"),
        include_str!("owners.rs"),
        include_str!("past.rs"),
        include_str!("shown.rs"),
        include_str!("to_end.rs"),
        include_str!("tokens.rs"),
    ])
}
