//! Progress messages during a run.

use std::io::{self, IsTerminal, Write};

use crate::measured::Measured;
use crate::print;
use crate::shape::Shape;

/// Is told how it goes.
pub trait Progress: Send + Sync {
    /// The `second` of what is measured, in which there were `rate` pairs.
    fn second(&self, contender: &str, second: u64, shape: &Shape, rate: f64) {
        let _ = (contender, second, shape, rate);
    }

    /// A round of the side called `side` is over.
    fn round(&self, side: &str, measured: &Measured) {
        let _ = (side, measured);
    }

    /// Something to be read.
    fn say(&self, text: &str) {
        let _ = text;
    }
}

/// Tells nobody.
#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {}

/// Lines on stderr. On a terminal the last one is written over each second.
#[derive(Debug)]
pub struct Stderr;

const OVER: &str = "\r\x1b[2K";

impl Progress for Stderr {
    fn second(&self, contender: &str, second: u64, shape: &Shape, rate: f64) {
        if io::stderr().is_terminal() {
            let (of, clients) = (shape.time_ms.div_ceil(1000), shape.clients);
            write(&format!(
                "{OVER}{contender}, {clients} clients: {rate:.0} pairs/s ({second} of {of} s)"
            ));
        }
    }

    fn round(&self, side: &str, measured: &Measured) {
        let p50 = print::ms(measured.acquire.p50_us);
        let rate = measured.rate;
        self.say(&format!(
            "  {side:<12} {rate:>8.0} pairs/s, acquire p50 {p50}"
        ));
    }

    fn say(&self, text: &str) {
        self.clear();
        write(&format!("{text}\n"));
    }
}

impl Stderr {
    /// Takes the line back that is written over.
    pub fn clear(&self) {
        if io::stderr().is_terminal() {
            write(OVER);
        }
    }
}

/// Nobody to tell is no trouble.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}
