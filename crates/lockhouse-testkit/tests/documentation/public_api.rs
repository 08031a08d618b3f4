//! No type of the HTTP API's JSON is in the public API of `lockhouse`: its callers see the library's types only.

use std::fs;

use crate::pages::{files, root};

#[test]
fn the_public_api_has_no_wire_types() {
    let mut checked = 0;
    for file in files("rs") {
        if file.starts_with("crates/lockhouse/src/") {
            let source = fs::read_to_string(root().join(&file)).unwrap();
            let shown = shown_wire_types(&source);
            assert!(shown.is_empty(), "{file}: {}", shown.join("; "));
            checked += usize::from(source.contains("lockhouse_wire"));
        }
    }
    assert!(checked > 0, "no file uses the wire types");
}

#[test]
fn a_wire_type_in_the_public_api_is_found() {
    for shows in [
        "pub use lockhouse_wire::Problem;",
        "use lockhouse_wire::{Problem, Request};\npub fn f(\n    problem: Problem,\n) -> u32 {",
        "use lockhouse_wire as wire;\npub struct Answer(pub wire::Problem);",
        "pub fn f() -> lockhouse_wire::Problem {",
        "use lockhouse_wire as wire;\nimpl From<wire::Problem> for Error {",
        "use lockhouse_wire::Problem;\nimpl<T> TryFrom<Answer<T>>\n    for Problem\n{",
        "use lockhouse_wire::Problem;\nimpl FromStr for Answer {\n    type Err = Problem;",
        "use lockhouse_wire::Problem;\npub enum Answer {\n    Refused(Problem),\n}",
        "use lockhouse_wire::Problem;\npub trait Ask {\n    fn ask(&self) -> Problem;\n}",
    ] {
        assert_eq!(shown_wire_types(shows).len(), 1, "{shows}");
    }
    for hides in [
        "use lockhouse_wire::Problem;\npub(crate) fn f(problem: Problem) {",
        "use lockhouse_wire::Problem;\npub fn f() {\n    Problem::read();\n}",
        "use lockhouse_wire::Problem;\nimpl Error {\n    fn of(problem: Problem) {",
        "use lockhouse_wire::Problem;\npub enum Answer {\n    Granted,\n}\nstruct Refused(Problem);",
    ] {
        assert!(shown_wire_types(hides).is_empty(), "{hides}");
    }
}

/// The public items of `source` whose declaration names a wire type, and its implementations with their types, which need
/// no `pub`.
fn shown_wire_types(source: &str) -> Vec<String> {
    let mut names = vec!["lockhouse_wire".to_owned()];
    let mut shown = Vec::new();
    for (at, _) in source.match_indices("use lockhouse_wire") {
        let import = source[at..].split(';').next().unwrap_or_default();
        let words =
            import["use lockhouse_wire".len()..].split(|c: char| !c.is_alphanumeric() && c != '_');
        names.extend(
            words
                .filter(|word| !["", "as", "self"].contains(word))
                .map(str::to_owned),
        );
    }
    let starts = ["pub ", "\nimpl", "\n    type "];
    let mut rest = source;
    while let Some(at) = starts.iter().filter_map(|start| rest.find(start)).min() {
        let item = &rest[at..];
        let end = item.find(['{', ';']).unwrap_or(item.len());
        let last = match item.split_whitespace().nth(1) {
            Some("use") => item.find(';'),
            Some("enum" | "trait") if item.starts_with("pub ") => item.find("\n}"),
            _ => None,
        };
        let end = last.unwrap_or(end);
        let declaration = &item[..end];
        let mut words = declaration.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.any(|word| names.iter().any(|name| name == word)) {
            shown.push(declaration.to_owned());
        }
        rest = &item[end.max("pub ".len())..];
    }
    shown
}
