//! The rows of an INSERT, a column at a time.
//!
//! VALUES has an expression for each value, which the server parses and plans one by one. An array
//! is one expression, whatever its length. So a column is an array; or a constant, if its values are
//! all the same. One row has only constants, and is written as VALUES.
//!
//! A text is the hexadecimal digits of its UTF-8 here too, which need no escapes in an array.

use std::fmt::{self, Display, Write as _};

use lockhouse_core::Timestamp;

use super::sql::{Text, Time};
use crate::sql::{hex, list};

/// The columns and the rows of an INSERT.
#[derive(Debug, Default)]
pub(super) struct InsertColumns {
    names: String,
    selected: String,
    arrays: String,
    /// How many columns are arrays.
    many: usize,
}

/// A value of a column.
pub(super) trait Value: PartialEq {
    /// The type of the column. Numbers are cast to that of the table's.
    const TYPE: &'static str;

    /// The type of the elements of its array.
    const ELEMENT: &'static str = Self::TYPE;

    /// The value as a literal.
    fn literal(&self) -> impl Display;

    /// The value in an array that is written as `E'{…}'`.
    fn element(&self) -> impl Display;

    /// Writes the value of the element that is in column `c{at}`.
    fn read(at: usize, selected: &mut String) -> fmt::Result {
        write!(selected, "c{at}")
    }
}

impl InsertColumns {
    /// Adds the column `name`. All columns have as many values. The first is an array if there are several rows.
    pub(super) fn add<V: Value>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = Option<V>>,
    ) {
        separate(&mut self.names);
        self.names.push_str(name);
        let values: Vec<_> = values.into_iter().collect();
        let is_constant = match self.selected.is_empty() {
            true => values.len() == 1,
            false => values.windows(2).all(|pair| pair[0] == pair[1]),
        };
        let written = match (is_constant, values.first()) {
            (true, Some(value)) => self.add_constant(value.as_ref()),
            _ => self.add_array(&values),
        };
        written.expect("writing to a String does not fail");
    }

    fn add_constant<V: Value>(&mut self, value: Option<&V>) -> fmt::Result {
        separate(&mut self.selected);
        match value {
            Some(value) => write!(self.selected, "{}::{}", value.literal(), V::TYPE),
            None => write!(self.selected, "NULL::{}", V::TYPE),
        }
    }

    fn add_array<V: Value>(&mut self, values: &[Option<V>]) -> fmt::Result {
        separate(&mut self.selected);
        V::read(self.many, &mut self.selected)?;
        self.many += 1;
        separate(&mut self.arrays);
        self.arrays.push_str("E'{");
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.arrays.push(',');
            }
            match value {
                Some(value) => write!(self.arrays, "{}", value.element())?,
                None => self.arrays.push_str("NULL"),
            }
        }
        write!(self.arrays, "}}'::{}[]", V::ELEMENT)
    }
}

fn separate(list: &mut String) {
    if !list.is_empty() {
        list.push(',');
    }
}

impl Display for InsertColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            names,
            selected,
            arrays,
            many,
        } = self;
        if *many == 0 {
            return write!(f, "({names}) VALUES ({selected})");
        }
        let read = list((0..*many).map(|at| format!("c{at}")));
        write!(
            f,
            "({names}) SELECT {selected} FROM unnest({arrays}) r({read})"
        )
    }
}

impl Value for u64 {
    const TYPE: &'static str = "bigint";

    fn literal(&self) -> impl Display {
        self
    }

    fn element(&self) -> impl Display {
        self
    }
}

impl Value for Timestamp {
    const TYPE: &'static str = "timestamptz";

    fn literal(&self) -> impl Display {
        Time(*self)
    }

    fn element(&self) -> impl Display {
        Precise(*self)
    }
}

/// A time in an array, in UTC, to the microsecond.
struct Precise(Timestamp);

impl Display for Precise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl Value for &str {
    const TYPE: &'static str = "text";

    const ELEMENT: &'static str = "bytea";

    fn literal(&self) -> impl Display {
        Text(self)
    }

    fn element(&self) -> impl Display {
        Element(self)
    }

    fn read(at: usize, selected: &mut String) -> fmt::Result {
        write!(selected, "convert_from(c{at},'UTF8')")
    }
}

/// A text in an array. The backslash is escaped in the array, and once more in the literal.
struct Element<'a>(&'a str);

impl Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r"\\\\x{}", hex(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_one_value_is_a_constant() {
        let mut columns = InsertColumns::default();
        columns.add("count", [Some(7), Some(7)]);
        columns.add("owner", [Some("job"), Some("job")]);
        columns.add("expires_at", [None::<Timestamp>; 2]);
        columns.add("name", [None, Some("ü")]);
        assert_eq!(
            columns.to_string(),
            r"(count,owner,expires_at,name) SELECT c0,E'\x6a\x6f\x62'::text,NULL::timestamptz,convert_from(c1,'UTF8') FROM unnest(E'{7,7}'::bigint[],E'{NULL,\\\\xc3bc}'::bytea[]) r(c0,c1)"
        );
    }

    #[test]
    fn one_row_needs_no_array() {
        let mut columns = InsertColumns::default();
        columns.add("count", [Some(7)]);
        columns.add("created_at", [Some(Timestamp::UNIX_EPOCH)]);
        assert_eq!(
            columns.to_string(),
            "(count,created_at) VALUES (7::bigint,timestamptz'1970-01-01T00:00:00.000000Z'::timestamptz)"
        );
    }

    /// It holds digits, punctuation and the letters of the element's words only.
    #[test]
    fn no_character_of_a_text_is_in_its_element() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let length = random.usize(0..300);
            let characters = std::iter::repeat_with(|| random.char(..));
            let text: String = characters.take(length).collect();
            let element = (&*text).element().to_string();
            let digits = element.strip_prefix(r"\\\\x").unwrap();
            assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            assert_eq!(digits.len(), 2 * text.len());
        }
    }
}
