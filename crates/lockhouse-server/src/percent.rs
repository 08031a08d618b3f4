//! Percent-decoding of paths and queries.

use percent_encoding::percent_decode_str;

/// The decoded `text`, or what is wrong with it.
///
/// A `%` that begins no escape is refused. Taken literally, it would hide that the caller forgot to
/// encode an id, and two spellings would name one id.
pub(crate) fn decode(text: &str) -> Result<String, &'static str> {
    let mut behind_percents = text.split('%').skip(1);
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !behind_percents.all(is_escape) {
        return Err("has a % without two hexadecimal digits behind it; write %25 for a %");
    }
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "is not UTF-8 when percent-decoded")?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_percent_begins_an_escape() {
        for (text, decoded) in [
            ("", ""),
            ("a+b", "a+b"),
            ("%41%2f%C3%a9", "A/é"),
            ("%2541", "%41"),
        ] {
            assert_eq!(decode(text).as_deref(), Ok(decoded));
        }
        for text in ["%", "a%", "%4", "%zz", "%4g", "%%41", "%41%", "%+1", "%é"] {
            assert!(decode(text).unwrap_err().contains("hexadecimal"), "{text}");
        }
        for text in ["%FF", "%C3", "%ED%A0%80"] {
            assert!(decode(text).unwrap_err().contains("UTF-8"), "{text}");
        }
    }
}
