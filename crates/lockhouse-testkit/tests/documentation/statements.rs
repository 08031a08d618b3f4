//! Statements in the documentation are those of the code.

use lockhouse::caller::{SqlDialect, finish_sql, held_sql};
use lockhouse_gate::{redis, sql};

use crate::pages::{pages, root};

fn page(name: &str) -> String {
    let mut pages = pages().into_iter();
    let page = pages.find(|page| page.name == name);
    page.unwrap_or_else(|| panic!("{name} is missing")).text
}

#[test]
fn the_reference_has_every_statement_as_it_is_run() {
    let reference = page("docs/reference/sql.md");
    for dialect in SqlDialect::ALL {
        for statement in [
            sql::create_table(dialect),
            sql::pass(dialect),
            held_sql(dialect),
            finish_sql(dialect),
        ] {
            let block = format!("```sql\n{statement}\n```");
            assert!(reference.contains(&block), "{dialect}: {statement}");
        }
    }
}

#[test]
fn the_guide_has_the_statements_that_it_runs() {
    let guide = page("docs/guides/protect-a-resource.md");
    let sqlite = SqlDialect::Sqlite;
    for statement in [
        sql::create_table(sqlite),
        sql::pass(sqlite),
        finish_sql(sqlite),
        redis::PASS,
    ] {
        assert!(guide.contains(statement), "{statement}");
    }
}

#[test]
fn the_guide_has_the_example_of_the_layer_that_is_compiled() {
    let guide = page("docs/guides/protect-a-resource.md");
    let source = root().join("crates/lockhouse-gate/src/http.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let compiled: Vec<_> = lines.filter(|line| !line.starts_with("# ")).collect();
    let compiled = compiled.join("\n");
    let from = "```rust\nuse axum";
    let example = guide.split_once(from).expect("the guide has the example").1;
    let example = example.split_once("```").unwrap().0;
    assert!(
        compiled.contains(&format!("use axum{example}```")),
        "{example}"
    );
}
