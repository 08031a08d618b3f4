//! The rules that hold for a client of every store, embedded or through a server. Each rule is one function.
//!
//! [`conformance!`](crate::conformance!) makes a test of each rule on one kind of place:
//!
//! ```text
//! lockhouse_testkit::conformance!(sqlite, lockhouse_testkit::place::sqlite());
//! ```

mod atomic;
mod bounds;
mod callers;
mod capacity;
mod definitions;
mod endings;
mod fences;
mod holding;
mod idempotency;
mod listings;
mod locks;
mod owners;
mod peers;
mod slots;
mod steps;
mod templates;
mod tokens;
mod upkeep;
mod waiting;

pub use atomic::*;
pub use bounds::*;
pub use callers::*;
pub use capacity::*;
pub use definitions::*;
pub use endings::*;
pub use fences::*;
pub use holding::*;
pub use idempotency::*;
pub use listings::*;
pub use locks::*;
pub use owners::*;
pub use peers::*;
pub use slots::*;
pub use templates::*;
pub use tokens::*;
pub use upkeep::*;
pub use waiting::*;

/// Stamps out the suite on one kind of place, as a module of tests.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $place:expr) => {
        $crate::conformance_of! { conformance, $name, $place;
            // P1, P2
            permits_are_granted_up_to_the_capacity,
            a_closed_semaphore_grants_nothing,
            a_resize_below_use_revokes_nothing_and_grants_nothing,
            weights_count,
            many_callers_at_once_never_exceed_the_capacity,
            more_than_the_capacity_is_never_granted,
            // P3, P4
            a_request_ends_once,
            renewing_sets_the_expiry_to_now_and_the_ttl,
            renewing_without_a_ttl_takes_the_last_one,
            an_ended_request_cannot_be_renewed,
            an_unknown_request_cannot_be_renewed_or_released,
            a_request_whose_time_has_passed_cannot_be_renewed,
            a_request_whose_time_has_passed_was_not_released_by_its_holder,
            the_ttl_is_recorded,
            concurrent_releases_end_it_once,
            // P5
            the_same_ask_gives_the_same_grant,
            the_same_ask_from_many_at_once_is_granted_once,
            another_ask_under_the_same_id_is_a_conflict,
            after_its_end_an_id_is_never_granted_again,
            a_refused_ask_leaves_no_trace,
            ids_are_compared_byte_by_byte,
            // P6
            all_or_nothing_over_several_semaphores,
            any_order_of_names_is_free_of_deadlock,
            all_unknown_semaphores_are_named,
            sixty_four_semaphores_in_one_request,
            // P7
            fences_rise_with_every_grant,
            fences_go_on_after_deletion,
            each_semaphore_has_its_own_fence,
            a_new_epoch_is_above_all_fences_of_before,
            an_epoch_is_only_raised,
            an_epoch_misses_nothing_that_is_made_meanwhile,
            // slots
            a_permit_has_the_lowest_free_slots,
            high_slots_drain_after_a_shrink,
            slots_are_turned_on_and_off_while_nothing_is_held,
            a_slotted_semaphore_has_at_most_4096_permits,
            // definitions
            defining_again_with_the_same_capacity_changes_nothing,
            a_resize_leaves_an_audit_row,
            times_are_whole_microseconds,
            a_resize_of_an_unknown_semaphore_is_refused,
            deletion_is_refused_while_held,
            a_deleted_semaphore_is_unknown,
            a_semaphore_comes_back_empty,
            names_of_every_script_and_sign,
            many_definitions_of_one_name_at_once_create_it_once,
            // bounds
            every_bound_is_checked_with_its_field,
            the_largest_numbers_and_longest_names_fit,
            // listings
            semaphores_are_listed_in_byte_order_by_pages,
            semaphores_are_listed_by_prefix,
            holders_are_listed_by_pages,
            a_request_held_throughout_a_walk_is_listed_once,
            holders_of_a_semaphore_are_found_among_many_of_several,
            live_requests_are_listed_by_owner,
            history_is_newest_first,
            // callers
            an_error_of_one_caller_affects_no_other,
            a_caller_that_goes_away_breaks_nothing,
            a_thousand_calls_at_once_are_all_answered,
            a_dropped_permit_is_given_back,
            a_dropped_permit_comes_before_a_later_try_acquire,
            a_release_under_way_comes_before_a_later_try_acquire,
            a_release_that_is_given_up_on_releases,
            a_held_permit_renews_itself,
            a_permit_ended_by_another_is_lost,
            // owners
            silence_frees_all_that_an_owner_holds,
            a_heartbeat_keeps_all_that_an_owner_holds,
            a_goodbye_frees_all_that_an_owner_holds,
            a_session_keeps_what_its_owner_holds_until_its_goodbye,
            a_session_that_is_dropped_frees_what_it_kept,
            a_session_that_another_ends_is_lost,
            a_waiter_whose_session_ends_is_granted_nothing,
            an_ended_session_is_not_renewed,
            requests_of_a_session_are_never_stale,
            an_owner_without_a_session_keeps_what_it_holds,
            an_owner_of_many_is_freed_in_pieces,
            // templates
            a_template_creates_a_semaphore_on_its_first_grant,
            a_refused_ask_creates_no_semaphore,
            a_semaphore_of_a_template_is_created_once_by_many_at_once,
            the_template_with_the_longest_prefix_creates_the_semaphore,
            templates_are_listed_and_deleted,
            a_template_that_is_resized_resizes_its_semaphores,
            an_idle_semaphore_of_a_template_is_deleted,
            locks_work_on_names_of_a_template,
            a_waiter_for_a_semaphore_of_a_template_is_granted,
            a_saturated_key_holds_up_nobody_on_others,
            // tokens
            tokens_are_made_listed_and_revoked,
            an_expired_token_can_be_replaced,
            requests_belong_to_the_token_that_made_them,
            // upkeep
            a_dead_holders_permits_are_granted_to_a_waiter,
            a_semaphore_with_only_lapsed_permits_can_be_deleted,
            a_grant_is_never_returned_that_had_expired,
            force_ends_a_hold_and_says_who,
            a_release_names_its_caller,
            a_client_that_acquires_sweeps_what_has_lapsed_elsewhere,
            a_conditional_resize_that_lost_is_refused,
            upkeep_ends_what_is_due_and_nothing_else,
            // what went wrong elsewhere
            simultaneous_first_acquires_do_not_deadlock,
            a_capacity_that_is_set_again_gives_nothing_out_twice,
            an_unknown_id_among_others_fails_alone,
            an_owner_that_was_given_up_releases_nothing_when_it_comes_back,
            a_release_at_expiry_frees_permits_once,
            // waiting
            a_waiter_is_granted_when_permits_are_released,
            a_waiter_is_granted_when_the_capacity_grows,
            a_wait_ends_in_time_and_holds_nothing,
            waiters_are_counted,
            giving_up_a_wait_leaves_nothing,
            a_crowd_that_waits_is_served,
            the_first_waiter_is_served_first,
            small_asks_do_not_overtake_a_large_one,
            a_higher_priority_comes_first,
            asks_wait_while_the_semaphore_is_closed,
            a_waiter_on_a_closed_semaphore_holds_up_nobody_on_others,
            a_waiter_is_refused_when_its_semaphore_is_deleted,
            interrupted_waits_leave_no_orphan,
            no_waiter_sleeps_while_there_is_room,
            handing_over_takes_no_seconds,
            // holding
            a_job_longer_than_its_ttl_keeps_its_hold,
            a_permit_that_was_waited_for_longer_than_its_ttl_is_fresh,
            a_holder_that_was_given_up_releases_nothing_when_it_comes_back,
            a_release_that_is_retried_ends_no_newer_hold,
            a_caller_that_lost_its_hold_gets_request_ended,
            a_client_that_starts_later_finds_the_holder,
            a_client_that_closes_leaves_nothing_dropped_behind,
            a_repeated_ask_with_a_shorter_ttl_shortens_nothing,
            forgotten_permits_return_with_their_ttl,
            // the words of tokio
            a_handle_has_the_words_of_tokio,
            permits_added_at_once_all_count,
            a_mutex_is_for_one_at_a_time,
            a_mutex_is_made_once_by_many_at_once,
            a_name_is_a_mutex_or_a_readers_writer_lock,
            a_semaphore_of_another_capacity_is_no_lock,
            a_lock_waits_while_its_semaphore_is_closed,
            readers_share_and_a_writer_is_alone,
            a_writer_is_not_starved_by_readers,
        }
    };
}

/// One test for each function of the suite `$suite`. Use [`conformance!`](crate::conformance!) or
/// [`store_conformance!`](crate::store_conformance!), which name them all.
#[macro_export]
macro_rules! conformance_of {
    ($suite:ident, $name:ident, $place:expr; $($rule:ident,)*) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $rule() {
                    let Some(place) = $place.await else { return };
                    $crate::$suite::$rule(&place).await;
                    place.clear().await;
                }
            )*

            /// The rules that this module tests.
            #[allow(dead_code)]
            pub(super) const RULES: &[&str] = &[$(stringify!($rule),)*];
        }
    };
}

/// The names of all rules in this folder's files, to compare with the names in the macro.
pub fn all_rules() -> Vec<String> {
    let files = [
        include_str!("atomic.rs"),
        include_str!("bounds.rs"),
        include_str!("callers.rs"),
        include_str!("capacity.rs"),
        include_str!("definitions.rs"),
        include_str!("endings.rs"),
        include_str!("fences.rs"),
        include_str!("holding.rs"),
        include_str!("idempotency.rs"),
        include_str!("listings.rs"),
        include_str!("locks.rs"),
        include_str!("owners.rs"),
        include_str!("peers.rs"),
        include_str!("slots.rs"),
        include_str!("templates.rs"),
        include_str!("tokens.rs"),
        include_str!("upkeep.rs"),
        include_str!("waiting.rs"),
    ];
    rules_in(&files)
}

/// The names of the public functions in the texts of `files`.
pub(crate) fn rules_in(files: &[&str]) -> Vec<String> {
    let lines = files.iter().flat_map(|file| file.lines());
    let rules = lines.filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
    rules.map(str::to_owned).collect()
}
