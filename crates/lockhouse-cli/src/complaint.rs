//! Lines on stderr.

use std::io::{self, Write as _};

/// Prints `text` on stderr. A terminal obeys control characters, and a server's or a database's words may have some.
pub(crate) fn complain(text: &str) {
    let is_harmful = |c: char| c.is_control() && c != '\n';
    let text = text.replace(is_harmful, "\u{fffd}");
    // If stderr is closed, there is nowhere to report that.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
