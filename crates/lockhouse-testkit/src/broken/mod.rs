//! Stores that are broken on purpose, to check the checker. Each behaves as if the rules had a mistake, or as if the store
//! broke its contract. Each is a patch of a few lines over the store in memory. In one [drill](crate::drill) the checker
//! must find each break, and name its promise.
//!
//! Hand-written locks, and how each breaks, are in `lockhouse-lab`.

mod asking;
mod counting;
mod ending;
mod fencing;
mod flaw;
pub(crate) mod order;
mod sabotage;
mod templates;
mod timing;
mod unlocked;
mod variant;

pub use flaw::Flaw;
pub use sabotage::{Broken, Sabotage};
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
