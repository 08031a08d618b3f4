//! Builds SQL as text.
//!
//! A batch is two packets of many statements each, and servers prepare statements only one by one,
//! so values are written into the text. Nothing can be injected, since each value has one of three
//! forms, none of which contains a caller's byte:
//! - a number: decimal digits;
//! - a time: a literal of digits and punctuation, made from a [`Timestamp`](lockhouse_core::Timestamp);
//! - a text: the hexadecimal digits of its UTF-8, as the server takes them.
//!
//! The last two are the dialect's [`text`](super::Dialect::text) and [`time`](super::Dialect::time).

use std::fmt::{self, Display, Write as _};

use lockhouse_core::Key;

/// How the statements that open a transaction begin.
const OPENERS: [&str; 2] = ["BEGIN", "START TRANSACTION"];

/// Statements to send as one packet.
#[derive(Debug, Default)]
pub struct Script {
    text: String,
    statements: usize,
    commit: Option<usize>,
    leaves_open: bool,
    /// Whether one of its statements opens a transaction.
    opens: bool,
    /// Whether its first statement ends an open transaction.
    rolls_back: bool,
    /// The positions in the text at which a transaction begins, and of its COMMIT.
    begun: Option<usize>,
    ends: Option<usize>,
    /// The statements that may wait for a locked gap, by their index.
    inserts: Vec<(usize, Inserts)>,
}

/// Which rows a statement inserts. Another transaction may lock the gap that one of them belongs in.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "mysql"),
    expect(dead_code, reason = "other servers lock no gaps")
)]
pub(crate) enum Inserts {
    /// Requests. The session notes the id of each when it comes to its row.
    Requests,
    /// Owners' sessions. The session notes the position of each.
    Sessions,
    /// One row.
    One(Key),
}

/// A script for a server that may end a transaction without an error.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) text: String,
    /// The indexes of the statements that were added to the script's own.
    pub(crate) added: Vec<usize>,
}

impl Script {
    /// A script of no statements.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A script of one statement.
    pub(crate) fn of(statement: impl Display) -> Self {
        let mut script = Self::new();
        script.add(statement);
        script
    }

    /// A script whose first statement, `begin`, opens a transaction.
    pub(crate) fn transaction(begin: &str) -> Self {
        let mut script = Self::of(begin);
        script.leaves_open = true;
        script.begun = Some(script.text.len());
        script
    }

    /// A script of one statement in an open transaction, which stays open.
    pub(crate) fn within(statement: impl Display) -> Self {
        let mut script = Self::of(statement);
        script.leaves_open = true;
        script
    }

    /// A script that rolls back the open transaction, and then runs one statement.
    pub(crate) fn after_rollback(statement: impl Display) -> Self {
        let mut script = Self::of("ROLLBACK");
        script.rolls_back = true;
        script.add(statement);
        script
    }

    /// Adds a statement. Its answer follows those of the earlier ones.
    pub(crate) fn add(&mut self, statement: impl Display) {
        if self.statements > 0 {
            self.text.push(';');
        }
        let at = self.text.len();
        write!(self.text, "{statement}").expect("writing to a String does not fail");
        self.opens |= OPENERS
            .iter()
            .any(|opener| self.text[at..].starts_with(opener));
        self.statements += 1;
    }

    /// Adds a statement that may wait for a locked gap.
    #[cfg_attr(
        not(feature = "mysql"),
        expect(dead_code, reason = "other servers lock no gaps")
    )]
    pub(crate) fn insert(&mut self, inserts: Inserts, statement: impl Display) {
        self.inserts.push((self.statements, inserts));
        self.add(statement);
    }

    /// The rows that the statement `at` inserts, if it may wait for a locked gap.
    pub(crate) fn inserts(&self, at: usize) -> Option<&Inserts> {
        let found = self.inserts.iter().find(|(index, _)| *index == at);
        found.map(|(_, inserts)| inserts)
    }

    /// Whether a statement may wait for a locked gap.
    pub(crate) fn may_meet_gaps(&self) -> bool {
        !self.inserts.is_empty()
    }

    /// Adds the COMMIT that ends the transaction.
    pub(crate) fn commit(&mut self) {
        self.commit = Some(self.statements);
        self.ends = Some(self.text.len());
        self.add("COMMIT");
    }

    /// The script for a session with autocommit off. A transaction sets a savepoint at its
    /// beginning, which must still exist before the COMMIT. A script without a transaction gets a
    /// COMMIT.
    ///
    /// If the server ended the transaction in between, the next statement began another one,
    /// without the savepoint and without the locks.
    pub(crate) fn guarded(&self) -> Guarded {
        let begun = self.begun.unwrap_or_default();
        let ends = self.ends.unwrap_or(self.text.len());
        let mut guarded = Guarded {
            text: self.text[..begun].to_owned(),
            added: Vec::new(),
        };
        if self.begun.is_some() {
            guarded.text.push_str(";SAVEPOINT lockhouse");
            guarded.added.push(1);
        }
        guarded.text.push_str(&self.text[begun..ends]);
        let last = guarded.added.len() + self.commit.unwrap_or(self.statements);
        if self.ends.is_some() {
            guarded.text.push_str(";RELEASE SAVEPOINT lockhouse");
            guarded.added.push(last);
        } else if !self.leaves_open {
            guarded.text.push_str(";COMMIT");
            guarded.added.push(last);
        }
        guarded.text.push_str(&self.text[ends..]);
        guarded
    }

    /// The SQL.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How many answers the script has.
    pub(crate) fn statements(&self) -> usize {
        self.statements
    }

    /// Which of the statements, counted from 0, is the COMMIT.
    pub(crate) fn commit_at(&self) -> Option<usize> {
        self.commit
    }

    /// Whether a transaction is open after it.
    pub(crate) fn leaves_open(&self) -> bool {
        self.leaves_open
    }

    /// Whether a transaction may be open if the script fails after `finished` statements; one `was_open` before.
    pub(crate) fn may_leave_open(&self, finished: usize, was_open: bool) -> bool {
        let is_over = self.rolls_back && finished > 0;
        self.opens || was_open && !is_over
    }
}

/// A value that may be missing, as a literal.
pub(crate) struct Maybe<T>(pub(crate) Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("NULL"),
        }
    }
}

/// The hexadecimal digits of the bytes of `text`.
pub(crate) fn hex(text: &str) -> impl Display + '_ {
    Hex(text)
}

struct Hex<'a>(&'a str);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // In pieces, since writing digit by digit would dominate the cost of a batch.
        for piece in self.0.as_bytes().chunks(32) {
            let mut hex = [0; 64];
            for (pair, byte) in hex.chunks_exact_mut(2).zip(piece) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 15)];
            }
            let hex = &hex[..2 * piece.len()];
            f.write_str(std::str::from_utf8(hex).expect("digits are ASCII"))?;
        }
        Ok(())
    }
}

/// Items with commas between them.
pub(crate) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
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
    fn a_script_counts_its_statements() {
        let mut script = Script::transaction("BEGIN");
        script.add(list([1, 2, 3]));
        script.add(Maybe::<u8>(None));
        script.commit();
        assert_eq!(script.text(), "BEGIN;1,2,3;NULL;COMMIT");
        assert_eq!((script.statements(), script.commit_at()), (4, Some(3)));
        assert!(script.leaves_open());
    }

    #[test]
    fn a_transaction_may_be_open_after_a_failure_only_if_one_was_opened() {
        let read = Script::of("SELECT 1");
        assert!(!read.may_leave_open(0, false) && read.may_leave_open(0, true));
        let mut whole = Script::of("SET x=1");
        whole.add("START TRANSACTION READ ONLY");
        assert!(whole.may_leave_open(1, false));
        assert!(Script::transaction("BEGIN").may_leave_open(1, false));
        let after = Script::after_rollback("SELECT 1");
        assert!(after.may_leave_open(0, true) && !after.may_leave_open(1, true));
    }

    #[test]
    fn a_transaction_must_still_be_the_one_that_was_begun() {
        let mut script = Script::transaction("BEGIN");
        script.add("SELECT 1");
        let guarded = script.guarded();
        assert_eq!(guarded.text, "BEGIN;SAVEPOINT lockhouse;SELECT 1");
        assert_eq!(guarded.added, [1]);
        let mut script = Script::of("INSERT 1");
        script.commit();
        let guarded = script.guarded();
        assert_eq!(guarded.text, "INSERT 1;RELEASE SAVEPOINT lockhouse;COMMIT");
        assert_eq!(guarded.added, [1]);
        let guarded = Script::of("SELECT 1").guarded();
        assert_eq!(
            (guarded.text.as_str(), &*guarded.added),
            ("SELECT 1;COMMIT", &[1][..])
        );
        assert_eq!(Script::within("SELECT 1").guarded().text, "SELECT 1");
    }
}
