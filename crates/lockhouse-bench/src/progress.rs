//! What is told while it runs.

use std::io::{self, IsTerminal, Write};

use crate::shape::Shape;

/// Is told how it goes.
pub trait Progress: Send + Sync {
    /// The `second` of what is measured, in which there were `rate` pairs.
    fn second(&self, contender: &str, second: u64, shape: &Shape, rate: f64);
}

/// Tells nobody.
#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {
    fn second(&self, _: &str, _: u64, _: &Shape, _: f64) {}
}

/// One line on stderr, written over each second, if that is a terminal.
#[derive(Debug)]
pub struct Line;

impl Progress for Line {
    fn second(&self, contender: &str, second: u64, shape: &Shape, rate: f64) {
        if !io::stderr().is_terminal() {
            return;
        }
        let of = shape.time_ms.div_ceil(1000);
        let clients = shape.clients;
        // Nobody to tell is no trouble.
        let _ = write!(
            io::stderr().lock(),
            "\r\x1b[2K{contender}, {clients} clients: {rate:.0} pairs/s ({second} of {of} s)"
        );
    }
}

/// Clears the line.
pub fn done() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr().lock(), "\r\x1b[2K");
    }
}
