//! The secret that a caller sends to a server: `lh_`, 30 random characters, and 6 of CRC-32.
//!
//! The checksum tells a mistyped token from an unknown one without a read of the store. It also
//! lets scanners of source code find leaked tokens.

use std::fmt;
use std::str::FromStr;

use lockhouse_core::{Digest, Invalid};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

const PREFIX: &str = "lh_";
const RANDOM: usize = 30;
const CHECKSUM: usize = 6;
const LENGTH: usize = PREFIX.len() + RANDOM + CHECKSUM;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// An access token's secret. Anybody who has it has the token's grants.
///
/// It is shown once, when the token is created. `Debug` does not print it.
///
/// ```
/// use lockhouse::Secret;
///
/// let secret = Secret::random()?;
/// assert!(secret.reveal().starts_with("lh_"));
/// assert_eq!(format!("{secret:?}"), "Secret(…)");
/// # Ok::<(), lockhouse::Error>(())
/// ```
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// A new secret of about 178 bits, from the system's source of randomness.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal) if the system has no randomness.
    pub fn random() -> Result<Self, crate::Error> {
        let mut text = String::with_capacity(LENGTH);
        text.push_str(PREFIX);
        let mut bytes = [0; 64];
        while text.len() < PREFIX.len() + RANDOM {
            getrandom::fill(&mut bytes).map_err(|error| {
                crate::Error::Internal(format!("the system has no randomness: {error}"))
            })?;
            let left = PREFIX.len() + RANDOM - text.len();
            // A byte beyond the last whole alphabet would favour its first characters.
            let fair = bytes.iter().filter(|byte| **byte < 248);
            text.extend(fair.map(|byte| character(u32::from(*byte))).take(left));
        }
        text.push_str(&checksum(&text));
        Ok(Self(text.into()))
    }

    /// The text itself, for the header or the file that it goes into.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The digest that a store keeps.
    pub fn digest(&self) -> Digest {
        Digest::new(Sha256::digest(self.0.as_bytes()).into())
    }

    /// Whether it is the secret that `digest` is of. Takes the same time whatever differs.
    ///
    /// ```
    /// use lockhouse::Secret;
    ///
    /// let secret = Secret::random()?;
    /// assert!(secret.is_of(&secret.digest()));
    /// assert!(!Secret::random()?.is_of(&secret.digest()));
    /// # Ok::<(), lockhouse::Error>(())
    /// ```
    pub fn is_of(&self, digest: &Digest) -> bool {
        self.digest().as_bytes().ct_eq(digest.as_bytes()).into()
    }
}

/// Any text that has the form of a token, and its checksum.
impl FromStr for Secret {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // No part of the text is repeated in the error.
        let malformed = || Invalid::new("token", "is malformed; a token is lh_ and 36 characters");
        let body = text.strip_prefix(PREFIX).ok_or_else(malformed)?;
        let is_whole =
            text.len() == LENGTH && body.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_whole || checksum(&text[..PREFIX.len() + RANDOM]) != text[PREFIX.len() + RANDOM..] {
            return Err(malformed());
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn character(number: u32) -> char {
    char::from(ALPHABET[(number % 62) as usize])
}

/// The CRC-32 of `text` in base 62, the highest digit first.
fn checksum(text: &str) -> String {
    let crc = crc32(text.as_bytes());
    let places = (0..CHECKSUM as u32).rev();
    let digits = places.map(|place| character(crc / 62_u32.pow(place)));
    digits.collect()
}

/// CRC-32 as in zip and Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    let with = |crc: u32, byte: &u8| {
        let bits = crc ^ u32::from(*byte);
        (0..8).fold(bits, |bits, _| {
            (bits >> 1) ^ (0xedb8_8320 & (bits & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(u32::MAX, with)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_secret_is_read_as_it_is_written() {
        let secret = Secret::random().unwrap();
        assert_eq!(secret.reveal().len(), 39);
        let read: Secret = secret.reveal().parse().unwrap();
        assert_eq!(read.digest(), secret.digest());
        assert!(read.is_of(&secret.digest()));
        assert!(!Secret::random().unwrap().is_of(&secret.digest()));
    }

    #[test]
    fn a_changed_character_breaks_the_checksum() {
        let secret = Secret::random().unwrap();
        for at in 3..39 {
            let mut text = secret.reveal().to_owned();
            let other = if text.as_bytes()[at] == b'a' {
                "b"
            } else {
                "a"
            };
            text.replace_range(at..=at, other);
            assert!(text.parse::<Secret>().is_err(), "{at}");
        }
    }

    #[test]
    fn neither_debug_nor_an_error_has_the_text() {
        let secret = Secret::random().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        let broken = &secret.reveal()[..38];
        let error = broken.parse::<Secret>().unwrap_err().to_string();
        assert!(!error.contains(&broken[3..]), "{error}");
    }

    #[test]
    fn the_checksum_is_that_of_the_crc_in_base_62() {
        // The check value of CRC-32.
        let digits = checksum("123456789");
        let value = digits.bytes().fold(0_u64, |value, digit| {
            let at = ALPHABET.iter().position(|known| *known == digit).unwrap();
            value * 62 + at as u64
        });
        assert_eq!(value, 0xcbf4_3926);
    }

    proptest! {
        #[test]
        fn any_text_is_a_secret_or_refused(text in "(lh_)?\\PC{0,40}") {
            let _ = text.parse::<Secret>();
        }
    }
}
