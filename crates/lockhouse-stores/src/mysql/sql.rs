//! Texts and times as literals.
//!
//! A text is the hexadecimal digits of its UTF-8, `_utf8mb4 x'6a6f62'`. No quote, no backslash, no
//! dependence on the session's character set or `sql_mode`.

use std::fmt::{self, Display};

use lockhouse_core::Timestamp;

use crate::sql::hex;

/// Begins a transaction, in the session's isolation level.
pub(super) const BEGIN: &str = "START TRANSACTION";

/// A row of more than one value where one is allowed is an error, which is met only if there are rows to count.
pub(super) const NONE_EXIST: &str = "IF(COUNT(*)=0,1,(SELECT 1 UNION SELECT 2))";

/// `NOW` would be the time when the statement began.
pub(super) const CLOCK: &str = "SELECT SYSDATE(6)";

/// A text as a literal.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "_utf8mb4 x'{}'", hex(self.0))
    }
}

/// A time as a literal, in UTC, to the microsecond.
#[derive(Debug)]
pub(super) struct Time(pub(super) Timestamp);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rfc3339 = format!("{:.6}", self.0);
        let literal = rfc3339.trim_end_matches('Z').replace('T', " ");
        write!(f, "TIMESTAMP'{literal}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_character_of_a_text_is_in_its_literal(text: String) {
            let literal = Text(&text).to_string();
            let digits = literal.strip_prefix("_utf8mb4 x'").and_then(|rest| rest.strip_suffix('\''));
            prop_assert!(digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit())));
        }
    }

    #[test]
    fn a_text_is_its_bytes_in_hexadecimal() {
        assert_eq!(Text("job").to_string(), "_utf8mb4 x'6a6f62'");
        assert_eq!(Text("").to_string(), "_utf8mb4 x''");
        assert_eq!(Text("'\\é").to_string(), "_utf8mb4 x'275cc3a9'");
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
            let digits = literal
                .strip_prefix("_utf8mb4 x'")
                .and_then(|rest| rest.strip_suffix('\''))
                .unwrap();
            assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let bytes: Vec<u8> = (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect();
            assert_eq!(bytes, text.as_bytes());
        }
    }

    #[test]
    fn a_time_has_six_digits_of_fraction() {
        let time = Timestamp::from_microsecond(1_700_000_000_000_050).unwrap();
        assert_eq!(
            Time(time).to_string(),
            "TIMESTAMP'2023-11-14 22:13:20.000050'"
        );
        let whole = Timestamp::from_second(0).unwrap();
        assert_eq!(
            Time(whole).to_string(),
            "TIMESTAMP'1970-01-01 00:00:00.000000'"
        );
    }
}
