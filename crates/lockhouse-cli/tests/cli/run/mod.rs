//! `lockhouse run`.

mod command;
mod loss;
mod owner;
mod signals;
mod tree;
