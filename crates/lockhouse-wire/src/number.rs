//! Whole numbers from JSON, however large: the field's own check, and not the parser, reports a
//! number out of bounds, together with the bound.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Number;

/// A whole number, as its nearest `i64`.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = Number::deserialize(deserializer)?;
    if let Some(whole) = number.as_i64() {
        return Ok(whole);
    }
    // A whole number beyond i64 is parsed as a float, unless it is a u64.
    const BEYOND: f64 = i64::MAX as f64;
    match number.as_f64() {
        _ if number.is_u64() => Ok(i64::MAX),
        Some(float) if float.fract() == 0.0 && float.abs() < BEYOND => Ok(float as i64),
        Some(float) if float >= BEYOND => Ok(i64::MAX),
        Some(float) if float <= -BEYOND => Ok(i64::MIN),
        _ => Err(D::Error::custom(format!("{number} is not a whole number"))),
    }
}

/// A whole number, as its nearest `i64`, or `None` for a member that is missing or null.
pub(super) fn perhaps_whole<'de, D>(deserializer: D) -> Result<Option<i64>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Whole(i64);

    impl<'de> Deserialize<'de> for Whole {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            whole(deserializer).map(Whole)
        }
    }

    let number = Option::<Whole>::deserialize(deserializer)?;
    Ok(number.map(|Whole(number)| number))
}

#[cfg(test)]
mod tests {
    use crate::Renew;

    fn read(number: &str) -> Option<Option<i64>> {
        let text = format!(r#"{{"ttl_ms":{number}}}"#);
        serde_json::from_str::<Renew>(&text)
            .ok()
            .map(|renew| renew.ttl_ms)
    }

    #[test]
    fn a_number_however_large_is_read() {
        assert_eq!(read("7"), Some(Some(7)));
        assert_eq!(read("null"), Some(None));
        for large in ["9223372036854775808", "99999999999999999999", "1e300"] {
            assert_eq!(read(large), Some(Some(i64::MAX)), "{large}");
            assert_eq!(read(&format!("-{large}")), Some(Some(i64::MIN)), "-{large}");
        }
    }

    /// To JSON Schema these are integers, and some languages write them so.
    #[test]
    fn a_whole_number_may_have_a_fraction_of_zero_or_an_exponent() {
        for (text, whole) in [
            ("4.0", 4),
            ("-0.0", 0),
            ("1e3", 1000),
            ("31622400000.0", 31_622_400_000),
        ] {
            assert_eq!(read(text), Some(Some(whole)), "{text}");
        }
    }

    #[test]
    fn a_fractional_number_is_refused() {
        for text in ["1.5", "\"7\"", "true", "[]", "{}"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
