//! Statements in the documentation are those of the code.

use lockhouse::caller::{SqlDialect, finish_sql, held_sql};
use lockhouse_gate::{redis, sql};

use crate::pages::pages;

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
