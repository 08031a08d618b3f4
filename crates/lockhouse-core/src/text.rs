//! Names, ids and owners: short text that is checked when it is made.
//!
//! All three share one rule: 1 to 255 bytes of UTF-8, no control characters, no white space at
//! either end. They are compared byte by byte, so `Job-1` and `job-1` differ. A [`Note`] may be
//! longer, and have line breaks.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::Invalid;

/// The longest name, id or owner, in bytes of UTF-8.
pub const MAX_TEXT_BYTES: usize = 255;

/// The longest name of an access token, in bytes of UTF-8.
pub const MAX_TOKEN_NAME_BYTES: usize = 64;

/// The longest note on a capacity change, in bytes of UTF-8.
pub const MAX_NOTE_BYTES: usize = 1024;

/// The names of Lockhouse's own semaphores begin with this.
const RESERVED_PREFIX: &str = "lockhouse:";

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $field:literal, $check:path) => {
        $(#[$doc])*
        ///
        /// 1 to 255 bytes of UTF-8, no control characters, no white space at either end.
        /// Cloning is cheap.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses `text`.
            ///
            /// # Errors
            /// [`Invalid`] names the field and the bound that the text breaks.
            pub fn parse(text: impl AsRef<str>) -> Result<Self, Invalid> {
                $check($field, text.as_ref()).map(|text| Self(text.into()))
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::parse(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

macro_rules! shown_as_it_is {
    ($($name:ident)*) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        })*
    };
}

text!(
    /// The name of a semaphore.
    ///
    /// Names that begin with `lockhouse:` are reserved for Lockhouse's own semaphores: `parse`
    /// refuses them, so that no caller can take, resize or delete one.
    SemaphoreName,
    "semaphore",
    check_unreserved
);
text!(
    /// The idempotency key of a request, picked by the client.
    ExternalId,
    "external_id",
    check
);
text!(
    /// Free text that says who holds: a job id, a host and pid.
    ///
    /// Behind a server that asks for tokens, each token has separate owners: the owner then
    /// includes the token's name. [`as_str`](Owner::as_str) is the whole text, by which stores
    /// compare owners. [`name`](Owner::name) is the text that the caller chose, which `Display`
    /// shows.
    Owner,
    "owner",
    check
);
text!(
    /// The name of an access token: 1 to 64 bytes.
    TokenName,
    "name",
    check_token_name
);
shown_as_it_is!(SemaphoreName ExternalId TokenName);

impl SemaphoreName {
    /// The name in a store's row, which may be reserved. Never use it for a name from a caller.
    ///
    /// ```
    /// use lockhouse_core::SemaphoreName;
    ///
    /// assert!(SemaphoreName::stored("lockhouse:upkeep")?.is_reserved());
    /// assert!(SemaphoreName::parse("lockhouse:upkeep").is_err());
    /// # Ok::<(), lockhouse_core::Invalid>(())
    /// ```
    ///
    /// # Errors
    /// As [`parse`](SemaphoreName::parse), except for reserved names.
    pub fn stored(text: impl AsRef<str>) -> Result<Self, Invalid> {
        check("semaphore", text.as_ref()).map(|text| Self(text.into()))
    }

    /// Whether the name is reserved for Lockhouse. Listings leave such semaphores out.
    pub fn is_reserved(&self) -> bool {
        is_reserved(&self.0)
    }
}

/// Whether names that begin with `text` are reserved.
pub(crate) fn is_reserved(text: &str) -> bool {
    text.starts_with(RESERVED_PREFIX)
}

/// A caller's note on a change of a capacity: at most 1024 bytes, may be empty.
///
/// ```
/// use lockhouse_core::Note;
///
/// assert_eq!(Note::parse("slow disk")?.as_str(), "slow disk");
/// assert!(Note::parse("x".repeat(1025)).is_err());
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note(Arc<str>);

impl Note {
    /// Parses `text`.
    ///
    /// # Errors
    /// [`Invalid`] if the text is longer than 1024 bytes, or has control characters other than line
    /// breaks and tabs.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, Invalid> {
        let text = text.as_ref();
        if text.len() > MAX_NOTE_BYTES {
            let problem = format!("is {} bytes long, the most is {MAX_NOTE_BYTES}", text.len());
            return Err(Invalid::new("note", problem));
        }
        if text
            .chars()
            .any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        {
            return Err(Invalid::new(
                "note",
                "has a control character; leave it out",
            ));
        }
        Ok(Self(text.into()))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Owner {
    /// The character between the name of a token and that of its owner. Names from callers never
    /// contain it.
    const SEPARATOR: char = '\u{1f}';

    /// The owner that the token `token` calls `owner`. Without an `owner`, the owner of the token's
    /// requests that name none.
    ///
    /// # Errors
    /// [`Invalid`] if both together have more than 254 bytes.
    pub fn of_token(token: &TokenName, owner: Option<&Owner>) -> Result<Self, Invalid> {
        let name = owner.map_or("", Owner::name);
        let most = MAX_TEXT_BYTES - 1 - token.as_str().len();
        if name.len() > most {
            let problem = format!(
                "is {} bytes long, the most is {most} for token \"{token}\"",
                name.len()
            );
            return Err(Invalid::new("owner", problem));
        }
        Ok(Self(format!("{token}{}{name}", Self::SEPARATOR).into()))
    }

    /// The owner in a store's row, which may include the name of a token. Never use it for a name
    /// from a caller.
    ///
    /// ```
    /// use lockhouse_core::{Owner, TokenName};
    ///
    /// let owner = Owner::of_token(&TokenName::parse("ci")?, Some(&Owner::parse("job-7")?))?;
    /// let stored = Owner::stored(owner.as_str())?;
    /// assert_eq!((stored.token(), stored.name()), (Some("ci"), "job-7"));
    /// # Ok::<(), lockhouse_core::Invalid>(())
    /// ```
    ///
    /// # Errors
    /// As [`parse`](Owner::parse), and if one of the two names is invalid.
    pub fn stored(text: impl AsRef<str>) -> Result<Self, Invalid> {
        let text = text.as_ref();
        let Some((token, name)) = text.split_once(Self::SEPARATOR) else {
            return Self::parse(text);
        };
        check_token_name("owner", token)?;
        if !name.is_empty() {
            check("owner", name)?;
        }
        Ok(Self(text.into()))
    }

    /// Lockhouse itself, which alone renews and ends its own requests. No text of a caller or of a
    /// store makes this owner.
    pub fn lockhouse() -> Self {
        Self(format!("{}lockhouse", Self::SEPARATOR).into())
    }

    /// The name of the token that the owner belongs to, if any.
    pub fn token(&self) -> Option<&str> {
        let (token, _) = self.0.split_once(Self::SEPARATOR)?;
        Some(token)
    }

    /// The text that the caller chose. Empty if a token named no owner.
    pub fn name(&self) -> &str {
        self.0
            .split_once(Self::SEPARATOR)
            .map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn check_token_name<'a>(field: &'static str, text: &'a str) -> Result<&'a str, Invalid> {
    let text = check(field, text)?;
    if text.len() > MAX_TOKEN_NAME_BYTES {
        let problem = format!(
            "is {} bytes long, the most is {MAX_TOKEN_NAME_BYTES}",
            text.len()
        );
        return Err(Invalid::new(field, problem));
    }
    Ok(text)
}

fn check<'a>(field: &'static str, text: &'a str) -> Result<&'a str, Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "is empty, it takes 1 to 255 bytes"));
    }
    if text.len() > MAX_TEXT_BYTES {
        let problem = format!("is {} bytes long, the most is {MAX_TEXT_BYTES}", text.len());
        return Err(Invalid::new(field, problem));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(field, "has a control character; leave it out"));
    }
    if text.trim() != text {
        return Err(Invalid::new(
            field,
            "has white space at an end; leave it out",
        ));
    }
    Ok(text)
}

fn check_unreserved<'a>(field: &'static str, text: &'a str) -> Result<&'a str, Invalid> {
    if is_reserved(text) {
        let problem =
            format!("begins with {RESERVED_PREFIX:?}, which is reserved; choose another name");
        return Err(Invalid::new(field, problem));
    }
    check(field, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_refused_unless_a_store_says_them() {
        let refused = SemaphoreName::parse("lockhouse:upkeep").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "semaphore begins with \"lockhouse:\", which is reserved; choose another name"
        );
        assert!("lockhouse:".parse::<SemaphoreName>().is_err());
        let stored = SemaphoreName::stored("lockhouse:upkeep").unwrap();
        assert!(stored.is_reserved());
        for free in ["lockhouse", "Lockhouse:upkeep", "a/lockhouse:upkeep"] {
            assert!(!SemaphoreName::parse(free).unwrap().is_reserved());
        }
        assert!(Owner::parse("lockhouse:upkeep").is_ok());
    }

    #[test]
    fn a_name_of_255_bytes_is_the_longest() {
        assert!(SemaphoreName::parse("x".repeat(255)).is_ok());
        let refused = SemaphoreName::parse("x".repeat(256)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "semaphore is 256 bytes long, the most is 255"
        );
        assert!(
            SemaphoreName::parse("é".repeat(128)).is_err(),
            "bytes count, not characters"
        );
    }

    #[test]
    fn empty_padded_and_control_text_is_refused() {
        for text in ["", " a", "a ", "\u{a0}a", "a\n", "a\0b", "a\u{85}b"] {
            assert!(ExternalId::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ids_differ_by_case() {
        assert_ne!(
            ExternalId::parse("Job-1").unwrap(),
            ExternalId::parse("job-1").unwrap()
        );
    }

    #[test]
    fn each_token_has_owners_of_its_own() {
        let (ci, ann) = (
            TokenName::parse("ci").unwrap(),
            Owner::parse("ann").unwrap(),
        );
        let owner = Owner::of_token(&ci, Some(&ann)).unwrap();
        assert_ne!(owner, ann);
        assert_eq!((owner.token(), owner.name()), (Some("ci"), "ann"));
        assert_eq!((ann.token(), ann.name()), (None, "ann"));
        assert_eq!(owner.to_string(), "ann");
        let nameless = Owner::of_token(&ci, None).unwrap();
        assert_eq!((nameless.token(), nameless.name()), (Some("ci"), ""));
        for owner in [&owner, &nameless, &ann] {
            assert_eq!(Owner::stored(owner.as_str()).as_ref(), Ok(owner));
        }
        assert!(
            Owner::parse(owner.as_str()).is_err(),
            "no caller can say it"
        );
        let ours = Owner::lockhouse();
        assert!(Owner::stored(ours.as_str()).is_err());
        for text in ["", "\u{1f}a", "ci\u{1f}a\u{1f}b", "ci\u{1f} a"] {
            assert!(Owner::stored(text).is_err(), "{text:?}");
        }
        let long = Owner::parse("x".repeat(253)).unwrap();
        let refused = Owner::of_token(&ci, Some(&long)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "owner is 253 bytes long, the most is 252 for token \"ci\""
        );
    }

    #[test]
    fn a_token_has_a_name_of_64_bytes_at_most() {
        assert!(TokenName::parse("x".repeat(64)).is_ok());
        assert!(TokenName::parse("x".repeat(65)).is_err());
    }

    #[test]
    fn a_note_may_be_empty_and_have_lines() {
        assert!(Note::parse("").is_ok());
        assert!(Note::parse("more room\nfor the night").is_ok());
        assert!(Note::parse("\0").is_err());
        assert!(Note::parse("x".repeat(1025)).is_err());
    }
}
