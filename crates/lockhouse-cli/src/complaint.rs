//! Lines on stderr.

use std::io::{self, Write as _};

/// Prints `text` on stderr.
pub(crate) fn complain(text: &str) {
    // With stderr gone there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
