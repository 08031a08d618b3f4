//! SQL as text: the only place where values become SQL.
//!
//! A batch is two packets of many statements each, and MySQL prepares statements only one by one,
//! so values are written into the text. Nothing can be injected, since each value takes one of
//! three forms, and none has a byte in it that a caller chose:
//! - a number: decimal digits;
//! - a time: a literal of digits and punctuation, made from a [`Timestamp`];
//! - a text: the hexadecimal digits of its UTF-8, `_utf8mb4 x'6a6f62'`. No quote, no backslash, no
//!   dependence on the session's character set or `sql_mode`.

use std::fmt::{self, Display, Write as _};

use lockhouse_core::Timestamp;

/// Statements to send as one packet.
#[derive(Debug, Default)]
pub(super) struct Script {
    text: String,
    statements: usize,
    commit: Option<usize>,
    leaves_open: bool,
}

impl Script {
    /// A script of no statements.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// A script of one statement.
    pub(super) fn of(statement: impl Display) -> Self {
        let mut script = Self::new();
        script.add(statement);
        script
    }

    /// A script that begins a transaction, and leaves it open.
    pub(super) fn transaction() -> Self {
        let mut script = Self::of("START TRANSACTION");
        script.leaves_open = true;
        script
    }

    /// Adds a statement; its answer is the next one.
    pub(super) fn add(&mut self, statement: impl Display) {
        if self.statements > 0 {
            self.text.push(';');
        }
        write!(self.text, "{statement}").expect("writing to a String does not fail");
        self.statements += 1;
    }

    /// Adds the COMMIT that ends the transaction.
    pub(super) fn commit(&mut self) {
        self.commit = Some(self.statements);
        self.add("COMMIT");
    }

    /// The SQL.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// How many answers there are to come.
    pub(super) fn statements(&self) -> usize {
        self.statements
    }

    /// Which of the statements, counted from 0, is the COMMIT.
    pub(super) fn commit_at(&self) -> Option<usize> {
        self.commit
    }

    /// Whether a transaction is open after it.
    pub(super) fn leaves_open(&self) -> bool {
        self.leaves_open
    }
}

/// A text as a literal.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        f.write_str("_utf8mb4 x'")?;
        // In pieces, since writing digit by digit takes longer than all else in a batch.
        for piece in self.0.as_bytes().chunks(32) {
            let mut hex = [0; 64];
            for (pair, byte) in hex.chunks_exact_mut(2).zip(piece) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 15)];
            }
            let hex = &hex[..2 * piece.len()];
            f.write_str(std::str::from_utf8(hex).expect("digits are ASCII"))?;
        }
        f.write_str("'")
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

/// A value that may be missing, as a literal.
pub(super) struct Maybe<T>(pub(super) Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("NULL"),
        }
    }
}

/// Items with commas between them.
pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut list = String::new();
    for item in items {
        if !list.is_empty() {
            list.push(',');
        }
        write!(list, "{item}").expect("writing to a String does not fail");
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

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
            Maybe(Some(Time(whole))).to_string(),
            "TIMESTAMP'1970-01-01 00:00:00.000000'"
        );
    }

    #[test]
    fn a_script_counts_its_statements() {
        let mut script = Script::transaction();
        script.add(list([1, 2, 3]));
        script.add(Maybe::<u8>(None));
        script.commit();
        assert_eq!(script.text(), "START TRANSACTION;1,2,3;NULL;COMMIT");
        assert_eq!((script.statements(), script.commit_at()), (4, Some(3)));
    }
}
