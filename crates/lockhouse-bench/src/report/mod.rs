//! The pages with the results of a suite: tables in Markdown, and a plot.

mod plot;
mod tables;

use std::path::Path;
use std::{fs, io};

use crate::Failed;
use crate::suite::Report;

pub use plot::plot;
pub use tables::tables;

/// [`write`] replaces the text between these marks in a page.
const BEGIN: &str = "<!-- measured: written by scripts/bench -->";
const END: &str = "<!-- end of what was measured -->";

const PAGE: &str = "benchmarks.md";
const PLOT: &str = "benchmarks.svg";

/// Writes `report` into `benchmarks.md` in `docs`, where its marks are, and `benchmarks.svg` beside
/// it.
///
/// # Errors
/// When the page is not there or has no marks, or can't be written.
pub fn write(report: &Report, docs: &Path) -> Result<(), Failed> {
    let page = docs.join(PAGE);
    let text = fs::read_to_string(&page)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", page.display())))?;
    let text = between_marks(&text, &tables(report, PLOT))
        .ok_or_else(|| format!("{} has no marks", page.display()))?;
    fs::write(page, text)?;
    Ok(fs::write(docs.join(PLOT), plot(report)?)?)
}

fn between_marks(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n\n{}\n\n{END}{after}",
        text.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let page = format!("# Head\n\n{BEGIN}\nold\n{END}\n\ntail\n");
        let new = between_marks(&page, "new\n").unwrap();
        assert_eq!(new, format!("# Head\n\n{BEGIN}\n\nnew\n\n{END}\n\ntail\n"));
        assert_eq!(between_marks(&new, "new\n"), Some(new.clone()));
        assert_eq!(between_marks("no marks", "new"), None);
    }
}
