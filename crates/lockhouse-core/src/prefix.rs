//! Prefixes of names, which narrow listings.

use std::fmt;
use std::sync::Arc;

use crate::{Invalid, MAX_TEXT_BYTES};

/// A prefix of semaphores' names: at most 255 bytes of UTF-8 without control characters. The empty
/// prefix matches all names.
///
/// ```
/// use lockhouse_core::NamePrefix;
///
/// let prefix = NamePrefix::parse("customer/")?;
/// assert_eq!(prefix.end().as_deref(), Some("customer0"));
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamePrefix(Arc<str>);

impl NamePrefix {
    /// Checks `text` and keeps it.
    ///
    /// # Errors
    /// [`Invalid`] if the text is longer than any name, or has a control character.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, Invalid> {
        let text = text.as_ref();
        if text.len() > MAX_TEXT_BYTES {
            let problem = format!("is {} bytes long, the most is {MAX_TEXT_BYTES}", text.len());
            return Err(Invalid::new("prefix", problem));
        }
        if text.chars().any(char::is_control) {
            return Err(Invalid::new(
                "prefix",
                "has a control character; leave it out",
            ));
        }
        Ok(Self(text.into()))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first text, in byte order, that comes after all texts with this prefix. `None` if there
    /// is none.
    ///
    /// UTF-8 bytes sort as their characters do. So this is the prefix with its last character
    /// replaced by the next one, after dropping trailing characters that have no next.
    pub fn end(&self) -> Option<String> {
        let last = self.0.trim_end_matches(char::MAX);
        let (at, last) = last.char_indices().next_back()?;
        // A range of `char` skips the surrogates.
        let next = (last..=char::MAX).nth(1)?;
        Some(format!("{}{next}", &self.0[..at]))
    }
}

impl fmt::Display for NamePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
