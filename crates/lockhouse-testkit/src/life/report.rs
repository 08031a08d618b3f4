//! The report of a run.

use std::fmt;

/// Figures, some with a target.
#[derive(Debug, Default)]
pub struct Report {
    figures: Vec<Figure>,
}

#[derive(Debug)]
struct Figure {
    what: String,
    value: String,
    target: Option<(String, bool)>,
}

impl Report {
    /// Adds a figure.
    pub fn say(&mut self, what: impl Into<String>, value: impl fmt::Display) {
        self.figures.push(Figure {
            what: what.into(),
            value: value.to_string(),
            target: None,
        });
    }

    /// Adds a figure that should be within a target, and whether it is.
    pub fn aim(
        &mut self,
        what: impl Into<String>,
        value: impl fmt::Display,
        target: impl Into<String>,
        met: bool,
    ) {
        self.say(what, value);
        if let Some(last) = self.figures.last_mut() {
            last.target = Some((target.into(), met));
        }
    }

    /// Whether any target was missed.
    pub fn missed(&self) -> bool {
        let mut targets = self.figures.iter().filter_map(|f| f.target.as_ref());
        targets.any(|(_, met)| !met)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Figure {
            what,
            value,
            target,
        } in &self.figures
        {
            write!(f, "  {what:<46} {value:>16}")?;
            match target {
                Some((target, true)) => writeln!(f, "   {target}: met")?,
                Some((target, false)) => writeln!(f, "   {target}: MISSED")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_is_reported() {
        let mut report = Report::default();
        report.say("rows", 3);
        report.aim("longest", "1 ms", "2 ms", true);
        assert!(!report.missed());
        report.aim("ratio", 2.5, "2", false);
        assert!(report.missed());
        assert!(report.to_string().contains("2: MISSED"));
    }
}
