//! [`OwnerPattern`]: the owners that a check is for.

use lockhouse_core::Owner;

/// The owners that a check is for: a name in which each `*` matches any text.
///
/// ```
/// use lockhouse::{Owner, OwnerPattern};
///
/// let pattern = OwnerPattern::new("job-*");
/// assert!(pattern.fits(&Owner::parse("job-17")?));
/// assert!(!pattern.fits(&Owner::parse("cron")?));
/// # Ok::<(), lockhouse::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPattern(String);

impl OwnerPattern {
    /// A pattern such as `job-*`.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// The pattern as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches `owner`.
    pub fn fits(&self, owner: &Owner) -> bool {
        if owner.name().is_empty() {
            // The token named no owner.
            return false;
        }
        let mut rest = owner.name();
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(after) = rest.strip_prefix(first) else {
            return false;
        };
        rest = after;
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else {
            return rest.is_empty();
        };
        for part in parts {
            let Some(at) = rest.find(part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, owner: &str) -> bool {
        OwnerPattern::new(pattern).fits(&Owner::parse(owner).unwrap())
    }

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(fits("*", "anybody"));
        assert!(fits("job-*", "job-1"));
        assert!(!fits("job-*", "a job-1"));
        assert!(fits("job-*-x", "job-1-x-x"));
        assert!(fits("a*b*c", "a-b-b-c"));
        assert!(!fits("a*b*c", "a-c-b"));
        assert!(fits("job-1", "job-1"));
        assert!(!fits("job-1", "job-11"));
        assert!(!fits("ab*ba", "aba"), "its ends don't overlap");
    }
}
