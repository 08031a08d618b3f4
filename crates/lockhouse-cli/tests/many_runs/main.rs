//! Many commands at once, which take the whole machine: apart from the other tests, as those have bounds on time.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../cli/binary.rs"]
mod binary;
#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "../cli/house.rs"]
mod house;

mod few_connections;
mod one_file;
