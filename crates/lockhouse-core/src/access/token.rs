//! A token as a store keeps it: everything except the secret.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Invalid, Timestamp, TokenGrant, Verb};

pub use crate::text::{MAX_TOKEN_NAME_BYTES, TokenName};

/// The most grants that one token may have.
pub const MAX_TOKEN_GRANTS: usize = 64;

/// The SHA-256 of a token's secret.
///
/// ```
/// use lockhouse_core::Digest;
///
/// let digest: Digest = "ab".repeat(32).parse()?;
/// assert_eq!(digest.as_bytes(), &[0xab; 32]);
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Shows 64 hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

impl FromStr for Digest {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = || Invalid::new("digest", "is not 64 hexadecimal digits");
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }
}

/// A token: its name and its grants. Stores keep only a [`Digest`] of its secret.
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Token {
    /// The token's name. Its requests and owners belong to the name, so a new token of the same
    /// name takes them over.
    pub name: TokenName,
    /// The rights of the token.
    pub grants: Vec<TokenGrant>,
    /// When it was created, by the store's clock.
    pub created_at: Timestamp,
    /// When it expires, by the store's clock.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, by the store's clock.
    pub revoked_at: Option<Timestamp>,
}

impl Token {
    /// Whether it is valid at `now`: neither revoked nor expired.
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }

    /// Whether the token has the right `verb` on the semaphore `name`.
    pub fn may(&self, verb: Verb, name: &str) -> bool {
        self.grants.iter().any(|grant| grant.allows(verb, name))
    }

    /// Whether the token has the right `verb` on every name that begins with `prefix`.
    pub fn may_all(&self, verb: Verb, prefix: &str) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.allows_all(verb, prefix))
    }

    /// Whether the token has the right `verb` on some name.
    pub fn may_any(&self, verb: Verb) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.verb().implies(verb))
    }

    /// The grants as one text, for a store's row.
    pub fn grants_text(&self) -> String {
        let grants: Vec<_> = self.grants.iter().map(TokenGrant::to_string).collect();
        grants.join("\n")
    }

    /// The grants in such a text.
    ///
    /// ```
    /// use lockhouse_core::Token;
    ///
    /// let grants = Token::grants_of("hold:customer/*\nread:*")?;
    /// assert_eq!(grants[1].to_string(), "read:*");
    /// # Ok::<(), lockhouse_core::Invalid>(())
    /// ```
    ///
    /// # Errors
    /// [`Invalid`] if one of them is malformed.
    pub fn grants_of(text: &str) -> Result<Vec<TokenGrant>, Invalid> {
        text.lines().map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written_and_not_debugged() {
        let digest = Digest::new(std::array::from_fn(|at| at as u8 * 7));
        let text = digest.to_string();
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(format!("{digest:?}"), "Digest(…)");
        for text in ["", "ab", &"é".repeat(32), &"g".repeat(64)] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut token = Token {
            name: TokenName::parse("ci").unwrap(),
            grants: Token::grants_of("hold:a*\nread:*").unwrap(),
            created_at: at(0),
            expires_at: Some(at(10)),
            revoked_at: None,
        };
        assert!(token.is_good(at(9)) && !token.is_good(at(10)));
        token.revoked_at = Some(at(5));
        assert!(!token.is_good(at(5)));
        assert!(token.may(Verb::Hold, "ab") && !token.may(Verb::Hold, "b"));
        assert!(token.may_any(Verb::Hold) && !token.may_any(Verb::Define));
        assert!(token.may_all(Verb::Read, "") && !token.may_all(Verb::Hold, ""));
        assert_eq!(
            Token::grants_of(&token.grants_text()).unwrap(),
            token.grants
        );
    }
}
