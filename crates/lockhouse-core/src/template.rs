//! Templates: rules that create semaphores on first use.
//!
//! A template `customer/*` of capacity 2 creates a semaphore of capacity 2 for every name that
//! begins with `customer/`, with the first grant on it. Of several templates that match, the one
//! with the longest prefix applies.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::text::is_reserved;
use crate::{Capacity, Invalid, MAX_TEXT_BYTES, SemaphoreName, Timestamp};

/// The most templates in a store. A batch that creates a semaphore reads all of them.
pub const MAX_TEMPLATES: usize = 1_000;

/// The longest idle time of a template: 366 days.
const MAX_IDLE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The names that a template matches: a literal prefix and one `*` at its end. `*` alone matches
/// all names.
///
/// ```
/// use lockhouse_core::{Pattern, SemaphoreName};
///
/// let pattern = Pattern::parse("customer/*")?;
/// assert!(pattern.matches(&SemaphoreName::parse("customer/acme")?));
/// assert!(!pattern.matches(&SemaphoreName::parse("repository/acme")?));
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// Checks `text` and keeps it.
    ///
    /// # Errors
    /// [`Invalid`] on `pattern` if the text does not end with its only `*`, is longer than 255
    /// bytes, has a control character, begins with white space, or begins with `lockhouse:`.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, Invalid> {
        let text = text.as_ref();
        let invalid = |problem: &'static str| Err(Invalid::new("pattern", problem));
        let Some(prefix) = text.strip_suffix('*') else {
            return invalid("does not end with *, as customer/* does");
        };
        if prefix.contains('*') {
            return invalid("has more than one *; it takes one, at its end");
        }
        if text.len() > MAX_TEXT_BYTES {
            let problem = format!("is {} bytes long, the most is {MAX_TEXT_BYTES}", text.len());
            return Err(Invalid::new("pattern", problem));
        }
        if text.chars().any(char::is_control) {
            return invalid("has a control character; leave it out");
        }
        if prefix.trim_start() != prefix {
            return invalid("begins with white space; leave it out");
        }
        if is_reserved(prefix) {
            return invalid("begins with \"lockhouse:\", which is reserved; choose another prefix");
        }
        Ok(Self(text.into()))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The prefix of the names.
    pub fn prefix(&self) -> &str {
        &self.0[..self.0.len() - 1]
    }

    /// Whether it matches `name`. No template matches Lockhouse's own semaphores.
    pub fn matches(&self, name: &SemaphoreName) -> bool {
        name.as_str().starts_with(self.prefix()) && !name.is_reserved()
    }
}

impl FromStr for Pattern {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::parse(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// How long an unused semaphore of a template is kept: 1 ms to 366 days, by default 7 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Idle(Duration);

impl Idle {
    /// An idle time in milliseconds.
    ///
    /// # Errors
    /// [`Invalid`] on `idle_ms` if it is not 1 ms to 366 days.
    pub fn from_ms(ms: impl Into<i128>) -> Result<Self, Invalid> {
        let ms = ms.into();
        let idle = u64::try_from(ms).ok().map(Duration::from_millis);
        idle.filter(|idle| (Duration::from_millis(1)..=MAX_IDLE).contains(idle))
            .map(Self)
            .ok_or_else(|| {
                let most = MAX_IDLE.as_millis();
                Invalid::new("idle_ms", format!("is {ms}, it goes from 1 to {most}"))
            })
    }

    /// The idle time in milliseconds.
    pub fn as_ms(self) -> u64 {
        u64::try_from(self.0.as_millis()).expect("it is at most 366 days")
    }

    /// The idle time.
    pub const fn as_duration(self) -> Duration {
        self.0
    }
}

impl Default for Idle {
    fn default() -> Self {
        Self(Duration::from_secs(7 * 24 * 60 * 60))
    }
}

/// A rule that creates semaphores on first use.
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Template {
    /// The names that it matches.
    pub pattern: Pattern,
    /// The capacity of its semaphores, except of those that were resized by hand.
    pub capacity: Capacity,
    /// How long a semaphore stays without a holder, a waiter or a new grant before it is deleted.
    pub idle: Idle,
    /// When it was first set, by the store's clock.
    pub created_at: Timestamp,
    /// When it was last changed, by the store's clock.
    pub updated_at: Timestamp,
}

/// The definition of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateDefinition {
    /// The names that it matches.
    pub pattern: Pattern,
    /// The capacity of its semaphores from now on.
    pub capacity: Capacity,
    /// How long an unused semaphore is kept.
    pub idle: Idle,
}

impl TemplateDefinition {
    /// The template after this definition; `before` is the existing one, if any.
    pub fn applied_to(&self, before: Option<&Template>, now: Timestamp) -> Template {
        let Self {
            pattern,
            capacity,
            idle,
        } = self.clone();
        let is_changed = before.is_none_or(|was| was.capacity != capacity || was.idle != idle);
        Template {
            pattern,
            capacity,
            idle,
            created_at: before.map_or(now, |was| was.created_at),
            updated_at: before
                .filter(|_| !is_changed)
                .map_or(now, |was| was.updated_at),
        }
    }
}

/// The template that created a semaphore.
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Origin {
    /// The template's pattern. The template may have been deleted since.
    pub template: Pattern,
    /// Whether an operator has resized the semaphore, so that it no longer follows its template.
    pub is_resized: bool,
    /// When a permit was last granted, to the second: a later grant within [`USED_EVERY`] is not
    /// recorded.
    pub used_at: Timestamp,
}

/// How often a use of a semaphore is recorded at most, so that a busy one seldom moves in the index
/// of idle semaphores.
pub const USED_EVERY: Duration = Duration::from_secs(1);

impl Template {
    /// The template of `templates` that applies to `name`: the one with the longest prefix.
    pub fn of<'a>(
        name: &SemaphoreName,
        templates: impl IntoIterator<Item = &'a Template>,
    ) -> Option<&'a Template> {
        let matching = templates
            .into_iter()
            .filter(|template| template.pattern.matches(name));
        matching.max_by_key(|template| template.pattern.prefix().len())
    }

    /// A semaphore is idle at `now` if nothing was granted on it since the returned time.
    pub fn idle_since(&self, now: Timestamp) -> Timestamp {
        let idle = self.idle.as_duration() + USED_EVERY;
        let since = now.checked_sub(idle).unwrap_or(Timestamp::UNIX_EPOCH);
        since.max(Timestamp::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(pattern: &str) -> Template {
        Template {
            pattern: pattern.parse().unwrap(),
            capacity: Capacity::new(2).unwrap(),
            idle: Idle::default(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_pattern_is_a_prefix_and_one_star_at_its_end() {
        for pattern in ["*", "a*", "customer/*", "é *"] {
            assert_eq!(Pattern::parse(pattern).unwrap().as_str(), pattern);
        }
        let long = format!("{}*", "x".repeat(255));
        let refused = [
            ("", "pattern does not end with *, as customer/* does"),
            (
                "customer/",
                "pattern does not end with *, as customer/* does",
            ),
            ("*/a", "pattern does not end with *, as customer/* does"),
            (
                "a*b*",
                "pattern has more than one *; it takes one, at its end",
            ),
            (
                "**",
                "pattern has more than one *; it takes one, at its end",
            ),
            ("a\n*", "pattern has a control character; leave it out"),
            (" a*", "pattern begins with white space; leave it out"),
            (
                "lockhouse:*",
                "pattern begins with \"lockhouse:\", which is reserved; choose another prefix",
            ),
            (&long, "pattern is 256 bytes long, the most is 255"),
        ];
        for (pattern, message) in refused {
            assert_eq!(Pattern::parse(pattern).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let templates = ["*", "customer/*", "customer/a*", "customer/acme/*"].map(template);
        let of = |name: &str| {
            let name = SemaphoreName::stored(name).unwrap();
            Template::of(&name, &templates).map(|template| template.pattern.as_str())
        };
        assert_eq!(of("customer/acme"), Some("customer/a*"));
        assert_eq!(of("customer/acme/x"), Some("customer/acme/*"));
        assert_eq!(of("customer/"), Some("customer/*"));
        assert_eq!(of("customer"), Some("*"));
        assert_eq!(of("lockhouse:upkeep"), None);
    }

    #[test]
    fn an_idle_time_is_1_ms_to_366_days() {
        assert_eq!(Idle::default().as_ms(), 604_800_000);
        assert_eq!(Idle::from_ms(1).unwrap().as_ms(), 1);
        assert!(Idle::from_ms(0).is_err());
        let refused = Idle::from_ms(31_622_400_001_i64).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "idle_ms is 31622400001, it goes from 1 to 31622400000"
        );
    }
}
