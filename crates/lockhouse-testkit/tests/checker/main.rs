//! The checker finds nothing in a correct store, and the broken promise in a broken one.

mod stores;
mod variants;
mod windows;
