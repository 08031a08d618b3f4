//! Cursors: where the next page of a listing begins. Callers pass a cursor back unchanged, and must
//! not rely on its content, the last key.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lockhouse_core::Invalid;

/// The cursor to go on after `key`.
pub fn cursor(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// The key that `cursor` goes on after.
///
/// # Errors
/// [`Invalid`] on `cursor` if [`cursor`](cursor()) did not make it.
pub fn key<K: FromStr>(cursor: &str) -> Result<K, Invalid> {
    URL_SAFE_NO_PAD
        .decode(cursor)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| {
            Invalid::new(
                "cursor",
                "is not the `next` of a listing; pass that value unchanged",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_core::SemaphoreName;

    #[test]
    fn a_cursor_leads_back_to_its_key() {
        for name in ["a", "a/b?c=d&e", "é 🛶", "..", &"x".repeat(255)] {
            let read: SemaphoreName = key(&cursor(name)).unwrap();
            assert_eq!(read.as_str(), name);
        }
    }

    #[test]
    fn a_foreign_cursor_is_refused() {
        for text in ["", "*", "a b", "_w", &cursor("\n")] {
            assert!(key::<SemaphoreName>(text).is_err(), "{text:?}");
        }
    }
}
