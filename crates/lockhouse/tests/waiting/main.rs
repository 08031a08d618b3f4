//! Waiting, on a store in memory and a paused clock (P11).

#![allow(clippy::unwrap_used)]

mod capacity;
mod elsewhere;
mod house;
mod keys;
mod leaving;
mod missing;
mod newcomers;
mod order;
mod random;
mod shown;
