//! Each public item of `lockhouse` has an example, or is named in one: in a block of Rust in the documentation of the
//! crate, or of the core and the stores, whose items it exports. The module `store` is left out: the stores are its
//! examples.

use std::collections::BTreeSet;
use std::{fs, mem};

use crate::pages::{files, root};

const CRATES: [&str; 3] = [
    "crates/lockhouse/src/",
    "crates/lockhouse-core/src/",
    "crates/lockhouse-stores/src/",
];

#[test]
fn every_public_item_has_an_example() {
    let mut named = BTreeSet::new();
    let mut items = BTreeSet::new();
    for file in files("rs") {
        if CRATES.iter().any(|folder| file.starts_with(folder)) {
            let source = fs::read_to_string(root().join(&file)).unwrap();
            named.extend(words(&examples(&source)));
            if file.starts_with(CRATES[0]) && file != "crates/lockhouse/src/store.rs" {
                items.extend(items_without_example(&source));
            }
        }
    }
    assert!(items.len() > 50, "{} items were found", items.len());
    let missing: Vec<_> = items.difference(&named).collect();
    assert!(missing.is_empty(), "no example shows {missing:?}");
}

#[test]
fn items_and_examples_are_found() {
    let source = "
/// Adds.
///
/// ```
/// # use lockhouse::Adder;
/// Adder.add(1);
/// ```
#[derive(Debug)]
pub struct Adder;

/// ```text
/// Unshown
/// ```
pub struct Unshown {}
pub use lockhouse_core::{
    Ask, Count,
};
pub use lockhouse_core::store::Cursor;
pub use lockhouse_stores::caller::held as held_sql;

impl Adder {
    pub const ZERO: u32 = 0;

    /// As `Other`.
    pub async fn add(self) {}

    /// ```no_run
    /// wait()
    /// ```
    pub const fn shown() {}

    pub(crate) fn hidden() {}
}

mod sealed {
    pub trait Sealed {}
}

mod tests {
    pub fn helper() {}
}
";
    let found: Vec<_> = items_without_example(source).into_iter().collect();
    let expected = [
        "Ask", "Count", "Cursor", "Unshown", "ZERO", "add", "held_sql",
    ];
    assert_eq!(found, expected);
    let named = words(&examples(source));
    assert!(["Adder", "add", "wait"].map(|word| named.contains(word)) == [true; 3]);
    assert!(["Adds", "Other", "Unshown"].map(|word| named.contains(word)) == [false; 3]);
}

/// The blocks of Rust in the documentation comments of `source`.
fn examples(source: &str) -> String {
    let mut text = String::new();
    let mut is_rust = false;
    for line in source.lines() {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        match comment.map(str::trim_start) {
            None => is_rust = false,
            Some(comment) if comment.starts_with("```") => {
                is_rust = !is_rust && begins_rust(comment);
            }
            Some(comment) if is_rust => text.extend([comment, "\n"]),
            Some(_) => {}
        }
    }
    text
}

/// Whether a block of Rust begins with that line of a comment.
fn begins_rust(comment: &str) -> bool {
    ["```", "```no_run"].contains(&comment)
}

/// The names of the public items of `source`: of those that it declares without an example, and of those that it
/// exports.
fn items_without_example(source: &str) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    let mut has_example = false;
    let mut in_block = false;
    // In a module of unit tests or of sealed traits.
    let mut is_hidden = false;
    for line in source.lines() {
        is_hidden |= ["mod tests {", "mod sealed {"].contains(&line);
        is_hidden &= line != "}";
        let line = line.trim_start();
        if let Some(comment) = line.strip_prefix("/// ") {
            has_example |= !in_block && begins_rust(comment);
            in_block ^= comment.starts_with("```");
        } else if let Some(declared) = line.strip_prefix("pub ") {
            if !mem::take(&mut has_example) && !is_hidden {
                items.extend(name(declared));
            }
        } else if !line.starts_with(['#', '/']) {
            has_example = false;
        }
    }
    items.extend(exported(source));
    items
}

/// The name of the item that is `declared` after its `pub`. Fields and modules have none.
fn name(declared: &str) -> Option<String> {
    const KINDS: [&str; 6] = ["struct", "enum", "trait", "type", "fn", "const"];
    let mut words = declared.split([' ', '(', '<', ':', ';', '{']);
    words.find(|word| KINDS.contains(word))?;
    // `const` may be followed by `fn`.
    let name = words.find(|word| *word != "fn")?;
    Some(name.to_owned())
}

/// The names that `source` exports of other crates.
fn exported(source: &str) -> impl Iterator<Item = String> {
    let exports = source.split("pub use lockhouse_").skip(1);
    let lists = exports.filter_map(|export| export.split(';').next()?.rsplit("::").next());
    let items = lists.flat_map(|list| list.trim_matches(['{', '}']).split(','));
    let names = items.filter_map(|item| item.rsplit(" as ").next());
    names
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.map(str::to_owned).collect()
}
