//! The rules of every store for direct calls of its traits, one function for each rule. The rules of
//! [`conformance`](mod@crate::conformance) use a store only through a client, which never calls twice or out of turn.
//!
//! [`store_conformance!`](crate::store_conformance!) makes a test of each rule on one store. The rules make rows old by short
//! TTLs, and by ages that begin between two calls. Only those of recount and repair damage rows past the store.

mod batches;
mod counting;
mod damaged;
mod listing;
mod migration;
mod notification;
mod owners;
mod past;
mod rows;
mod shown;
mod templates;
mod texts;
mod to_end;
mod tokens;
mod words;
mod writes;

pub use batches::*;
pub use counting::*;
pub use damaged::*;
pub use listing::*;
pub use migration::*;
pub use notification::*;
pub use owners::*;
pub use past::*;
pub use rows::*;
pub use shown::*;
pub use templates::*;
pub use texts::*;
pub use to_end::*;
pub use tokens::*;
pub use writes::*;

use crate::conformance::rules_in;

/// Makes a module of tests: each rule of the suite on one store.
#[macro_export]
macro_rules! store_conformance {
    ($name:ident, $place:expr) => {
        $crate::conformance_of! { store_conformance, $name, $place;
            // Store
            a_held_request_is_found_in_a_full_semaphore_by_a_batch_that_changes_others,
            requests_that_differ_in_every_column_are_written_by_one_batch,
            a_batch_of_the_largest_size_is_executed,
            a_batch_of_requests_on_many_semaphores_is_executed,
            a_batch_without_changes_writes_nothing,
            an_answer_is_what_is_read_later,
            each_request_of_a_batch_has_its_own_permits,
            a_release_finds_the_semaphores_that_it_does_not_name,
            calls_at_once_are_granted_no_more_than_there_is,
            a_call_that_is_dropped_leaves_the_store_usable,
            any_text_is_read_as_it_was_written,
            a_name_that_many_define_at_once_is_created_once,
            the_named_semaphores_that_exist_are_read_together,
            no_row_is_locked_while_nobody_uses_it,
            connections_are_counted_and_used_again,
            // Templates
            a_template_is_created_once_and_then_changed,
            a_template_that_many_define_at_once_is_created_once,
            templates_are_listed_in_byte_order_by_pages,
            a_deleted_template_leaves_its_semaphores_and_creates_no_more,
            semaphores_that_differ_from_their_template_are_found_to_follow_it,
            semaphores_that_seem_idle_are_found_to_follow_their_template,
            // Maintenance: due
            lapsed_requests_are_found_by_their_time_and_their_owners_session,
            lapsed_requests_are_found_on_the_semaphores_asked_for,
            a_look_finds_at_most_its_limit_and_each_request_once,
            lapsed_requests_that_ended_are_not_found_again,
            live_requests_of_an_owner_are_found,
            // Maintenance: stale
            the_oldest_requests_without_a_ttl_are_stale,
            stale_requests_are_found_piece_by_piece,
            // Maintenance: owners
            owners_of_live_requests_are_listed_once_in_byte_order,
            a_session_is_checked_again_before_its_owners_request_ends,
            a_session_lapses_at_the_time_that_its_last_heartbeat_told,
            heartbeats_at_once_of_the_same_owners_are_all_answered,
            sessions_of_owners_are_compared_byte_by_byte,
            a_goodbye_ends_a_session_once,
            the_caller_that_ended_a_request_is_kept,
            // Maintenance: purge
            requests_that_ended_before_an_age_are_purged,
            a_purge_deletes_at_most_its_limit_oldest_first,
            purges_at_once_delete_each_request_once_while_batches_go_on,
            a_purged_id_can_be_granted_again_under_a_higher_fence,
            capacity_changes_before_an_age_are_purged,
            lapsed_sessions_are_purged_unless_their_owner_holds_something,
            a_deleted_semaphore_is_kept_as_long_as_a_request_that_ended_before,
            semaphores_deleted_before_an_age_are_purged_and_no_fence_comes_back,
            // Maintenance: recount and repair
            a_recount_is_what_the_permits_add_up_to,
            a_recount_sees_one_moment_beside_other_calls,
            a_repair_changes_nothing_that_is_right,
            a_recount_finds_a_wrong_count_and_a_fence_that_is_too_low,
            a_repair_corrects_the_counters_and_returns_what_was,
            a_repair_leaves_a_fence_that_is_ahead,
            a_repair_corrects_a_deleted_semaphore,
            a_recount_finds_grants_beyond_the_capacity,
            a_recount_finds_a_fence_that_was_granted_twice,
            a_clock_that_was_set_back_breaks_no_promise,
            each_torn_request_is_found,
            the_first_thousand_torn_requests_are_named_in_byte_order,
            permits_without_a_live_request_do_not_count,
            a_repair_files_requests_so_that_a_refusal_finds_them,
            // Listing
            deleted_semaphores_are_listed_among_all_that_ever_were,
            live_requests_are_listed_by_pages_and_filters,
            semaphores_are_listed_by_a_prefix_and_pages,
            capacity_changes_are_listed_newest_first,
            // WaitingList
            a_process_shows_replaces_and_deletes_its_waiters,
            lists_of_waiters_are_forgotten_by_age,
            // Tokens
            a_token_is_replaced_only_after_its_end,
            tokens_are_listed_page_by_page,
            owners_in_use_have_a_session_or_a_live_request,
            // Migration, Store::ready, Notification
            many_migrations_at_once_leave_one_schema,
            a_migration_finishes_one_that_was_interrupted,
            a_migration_keeps_what_is_there,
            a_store_is_ready_once_it_is_migrated,
            a_schema_of_a_later_version_is_refused,
            a_release_by_another_process_is_reported_if_the_store_notifies,
            permits_left_to_one_process_are_not_reported_to_a_third,
            a_notification_that_is_dropped_leaves_the_store_usable,
        }
    };
}

/// The names of all the rules in this folder's files, to compare with what the macro names.
pub fn all_rules() -> Vec<String> {
    rules_in(&[
        include_str!("batches.rs"),
        include_str!("counting.rs"),
        include_str!("damaged.rs"),
        include_str!("listing.rs"),
        include_str!("migration.rs"),
        include_str!("notification.rs"),
        include_str!("owners.rs"),
        include_str!("past.rs"),
        include_str!("rows.rs"),
        include_str!("shown.rs"),
        include_str!("templates.rs"),
        include_str!("texts.rs"),
        include_str!("to_end.rs"),
        include_str!("tokens.rs"),
        include_str!("writes.rs"),
    ])
}
