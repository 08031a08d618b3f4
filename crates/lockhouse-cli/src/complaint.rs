//! Lines on stderr.

use std::io::{self, Write as _};

/// Prints `text` on stderr.
pub(crate) fn complain(text: &str) {
    // If stderr is closed, there is nowhere to report that.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
