//! P11 over all processes: several engines on one store, like several servers or programs.

mod across;
mod corrupt;
mod death;
mod moving;
mod order;
mod queue;
mod sharing;
mod shown;
mod upgrading;
