//! Tests and source files that pages name.

use std::collections::HashSet;
use std::fs;

use crate::pages::{Page, files, pages, root};

#[test]
fn every_test_that_the_evidence_names_exists() {
    let functions: HashSet<_> = files("rs")
        .iter()
        .flat_map(|name| functions(&fs::read_to_string(root().join(name)).unwrap()))
        .collect();
    let is_evidence =
        |page: &Page| page.name == "docs/proof.md" || page.name.starts_with("docs/runs/");
    let named: Vec<_> = pages()
        .into_iter()
        .filter(is_evidence)
        .flat_map(|page| {
            names(&page.text)
                .into_iter()
                .map(move |name| (page.name.clone(), name))
        })
        .collect();
    assert!(named.len() > 50, "only {} tests are named", named.len());
    let missing: Vec<_> = named
        .iter()
        .filter(|(_, name)| !functions.contains(name))
        .collect();
    assert!(missing.is_empty(), "tests that do not exist: {missing:?}");
}

#[test]
fn a_test_is_known_by_its_underscores() {
    assert_eq!(
        names("`a_test_with_a_name`, `one_word`, `lockhouse_permit_request` and a_b_c_d"),
        ["a_test_with_a_name"]
    );
}

/// Such as `lockhouse-core/src/turn.rs`, or `turn.rs` where the page says in which folder.
#[test]
fn every_source_file_that_a_page_names_exists() {
    let sources = files("rs");
    let exists = |file: &str| {
        let ending = format!("/{file}");
        sources.iter().any(|source| source.ends_with(&ending))
    };
    let mut missing = Vec::new();
    for page in pages()
        .iter()
        .filter(|page| !page.name.starts_with("docs/adr/"))
    {
        for file in quoted(&page.text).filter(|word| word.ends_with(".rs")) {
            let is_path = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
            if file.chars().all(is_path) && !exists(file) {
                missing.push(format!("{}: {file}", page.name));
            }
        }
    }
    assert!(missing.is_empty(), "files that do not exist: {missing:?}");
}

/// The words in backticks that look like the name of a test.
fn names(text: &str) -> Vec<String> {
    let of_a_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let names =
        quoted(text).filter(|word| word.matches('_').count() >= 3 && word.chars().all(of_a_name));
    names.map(str::to_owned).collect()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names of the functions in `source`, which is Rust.
pub(crate) fn functions(source: &str) -> Vec<String> {
    let after = source.split("fn ").skip(1);
    let names = after.filter_map(|rest| rest.split(['(', '<']).next());
    names.map(str::to_owned).collect()
}
