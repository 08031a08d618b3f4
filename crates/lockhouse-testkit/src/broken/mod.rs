//! Stores that are broken on purpose: what a slip in the rules, or a store that does not keep its
//! contract, would do. Each is a patch of a few lines over the store in memory, and each must be
//! caught by the checker in one [drill](crate::drill), with its promise named.
//!
//! The locks that people write by hand, which are broken without our help, are in `lockhouse-lab`.

mod asking;
mod counting;
mod ending;
mod fencing;
pub(crate) mod order;
mod sabotage;
mod templates;
mod timing;
mod unfair;
mod unlocked;
mod variant;

pub use sabotage::{Broken, Sabotage};
pub use unfair::Unfair;
pub use unlocked::{UNLOCKED, connect};
pub(crate) use variant::before;
pub use variant::{Variant, whole};

/// All of them.
pub fn variants() -> impl Iterator<Item = &'static Variant> {
    let files = [
        counting::VARIANTS,
        ending::VARIANTS,
        asking::VARIANTS,
        fencing::VARIANTS,
        timing::VARIANTS,
        templates::VARIANTS,
        order::VARIANTS,
    ];
    files.into_iter().flatten()
}
