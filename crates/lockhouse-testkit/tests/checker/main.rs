//! The checker finds nothing where nothing is broken, and what is broken where something is.

mod stores;
mod variants;
mod windows;
