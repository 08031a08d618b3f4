//! Texts and times as literals, and how tables are joined.
//!
//! A text is the bytes of its UTF-8, each as an escape: `E'\x6a\x6f\x62'`. That form means the same
//! whatever `standard_conforming_strings` and `backslash_quote` say.

use std::fmt::{self, Display};

use lockhouse_core::Timestamp;

/// Begins a transaction in which each statement sees the rows that were committed before it. It
/// does not ask for write access, so that a read-only server refuses the writes.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A division by zero if there are rows to count.
pub(super) const NONE_EXIST: &str = "1/(COUNT(*)=0)::int";

/// `now()` would be the time when the transaction began, and `statement_timestamp()` the time when
/// the packet came.
pub(super) const CLOCK: &str = "SELECT clock_timestamp()";

/// The permits `p` of each request `r`, with their semaphores `s`.
///
/// Joins use a subquery that names the row before it, and an OFFSET that keeps the subquery whole.
/// So the server begins with the table that is written first, and finds the other rows by their
/// index. It cannot choose another order from wrong statistics.
pub(super) const PERMITS: &str = "CROSS JOIN LATERAL (SELECT p.* FROM lockhouse_permit p \
    WHERE p.permit_request_id=r.id OFFSET 0) p \
    CROSS JOIN LATERAL (SELECT s.name FROM lockhouse_semaphore s \
    WHERE s.id=p.semaphore_id OFFSET 0) s";

/// A text as a literal.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        f.write_str("E'")?;
        // In pieces, since writing byte by byte would dominate the cost of a batch.
        for piece in self.0.as_bytes().chunks(32) {
            let mut escapes = [0; 128];
            for (escape, byte) in escapes.chunks_exact_mut(4).zip(piece) {
                escape[0] = b'\\';
                escape[1] = b'x';
                escape[2] = DIGITS[usize::from(byte >> 4)];
                escape[3] = DIGITS[usize::from(byte & 15)];
            }
            let escapes = &escapes[..4 * piece.len()];
            f.write_str(std::str::from_utf8(escapes).expect("escapes are ASCII"))?;
        }
        f.write_str("'")
    }
}

/// A time as a literal, in UTC, to the microsecond.
#[derive(Debug)]
pub(super) struct Time(pub(super) Timestamp);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timestamptz'{:.6}'", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_its_bytes_as_escapes() {
        assert_eq!(Text("job").to_string(), r"E'\x6a\x6f\x62'");
        assert_eq!(Text("").to_string(), "E''");
        assert_eq!(Text("'\\é").to_string(), r"E'\x27\x5c\xc3\xa9'");
    }

    #[test]
    fn no_text_leaves_its_literal() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let length = random.usize(0..300);
            let text: String = std::iter::repeat_with(|| random.char(..))
                .take(length)
                .collect();
            let literal = Text(&text).to_string();
            let escapes = literal
                .strip_prefix("E'")
                .and_then(|rest| rest.strip_suffix('\''))
                .unwrap();
            let bytes: Vec<u8> = escapes
                .as_bytes()
                .chunks(4)
                .map(|escape| {
                    let digits = std::str::from_utf8(escape.strip_prefix(b"\\x").unwrap());
                    assert_eq!(escape.len(), 4);
                    u8::from_str_radix(digits.unwrap(), 16).unwrap()
                })
                .collect();
            assert_eq!(bytes, text.as_bytes());
        }
    }

    #[test]
    fn a_time_has_six_digits_of_fraction_and_its_zone() {
        let time = Timestamp::from_microsecond(1_700_000_000_000_050).unwrap();
        assert_eq!(
            Time(time).to_string(),
            "timestamptz'2023-11-14T22:13:20.000050Z'"
        );
    }
}
