//! SQL as text.
//!
//! A batch is two packets of many statements each, and servers prepare statements only one by one,
//! so values are written into the text. Nothing can be injected, since each value takes one of
//! three forms, and none has a byte in it that a caller chose:
//! - a number: decimal digits;
//! - a time: a literal of digits and punctuation, made from a [`Timestamp`](lockhouse_core::Timestamp);
//! - a text: the hexadecimal digits of its UTF-8, as the server takes them.
//!
//! The last two are the dialect's [`text`](super::Dialect::text) and [`time`](super::Dialect::time).

use std::fmt::{self, Display, Write as _};

/// Statements to send as one packet.
#[derive(Debug, Default)]
pub struct Script {
    text: String,
    statements: usize,
    commit: Option<usize>,
    leaves_open: bool,
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

    /// A script whose first statement `begin`s a transaction, which is open after it.
    pub(crate) fn transaction(begin: &str) -> Self {
        let mut script = Self::of(begin);
        script.leaves_open = true;
        script
    }

    /// A script of one statement in a transaction that is open, and stays so.
    pub(crate) fn within(statement: impl Display) -> Self {
        let mut script = Self::of(statement);
        script.leaves_open = true;
        script
    }

    /// A script that ends the transaction that is open, and then is one statement.
    pub(crate) fn after_rollback(statement: impl Display) -> Self {
        let mut script = Self::of("ROLLBACK");
        script.add(statement);
        script
    }

    /// Adds a statement; its answer is the next one.
    pub(crate) fn add(&mut self, statement: impl Display) {
        if self.statements > 0 {
            self.text.push(';');
        }
        write!(self.text, "{statement}").expect("writing to a String does not fail");
        self.statements += 1;
    }

    /// Adds the COMMIT that ends the transaction.
    pub(crate) fn commit(&mut self) {
        self.commit = Some(self.statements);
        self.add("COMMIT");
    }

    /// The SQL.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How many answers there are to come.
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
}
