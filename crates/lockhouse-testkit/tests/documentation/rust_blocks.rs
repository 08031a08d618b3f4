//! The `rust` blocks of `docs/` compile: each stands here too, and a test compares the texts. The README's block is
//! compared with `lockhouse/examples/readme.rs` by `lockhouse-cli/tests/cli/readme.rs`.

use crate::pages::{Page, pages};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[rustfmt::skip]
async fn stop_when_the_hold_is_lost(permit: lockhouse::Permit) -> Result {
    tokio::select! {
        lost = permit.lost() => return Err(format!("stopped: {lost}").into()),
        done = work() => done?,
    }
    Ok(())
}

async fn work() -> Result {
    Ok(())
}

#[rustfmt::skip]
async fn finish(mut database: sqlx::PgConnection, permit: lockhouse::Permit) -> Result {
    use sqlx::Connection as _;
    let mut transaction = database.begin().await?;
    sqlx::query("UPDATE account SET balance = balance + 10 WHERE id = 1").execute(&mut *transaction).await?;
    permit.finish_in(&mut transaction).await?;     // fails if the hold was lost
    transaction.commit().await?;
    Ok(())
}

#[rustfmt::skip]
async fn finish_and_release(mut database: sqlx::PgConnection, permit: lockhouse::Permit) -> Result {
    use sqlx::Connection as _;
    let mut transaction = database.begin().await?;
    sqlx::query("UPDATE account SET balance = balance + 10 WHERE id = 1").execute(&mut *transaction).await?;
    permit.finish_in(&mut transaction).await?;     // fails if the hold was lost, and the drop rolls back
    transaction.commit().await?;
    permit.release().await?;                       // only wakes waiters sooner
    Ok(())
}

#[rustfmt::skip]
#[allow(clippy::let_and_return, reason = "the block ends with the statement")]
fn check_fences() -> axum::Router {
    use axum::{Router, routing::put};
    use lockhouse_gate::{MemoryGate, http::FenceLayer};

    let routes = Router::new()
        .route("/report", put(write_report))
        .layer(FenceLayer::new("report", MemoryGate::default()));
    routes
}

async fn write_report() {}

#[test]
fn every_rust_block_of_the_docs_is_compiled() {
    // Each function is used, so that none stays here when its block is gone.
    let (_, _) = (stop_when_the_hold_is_lost, finish);
    let (_, _) = (finish_and_release, check_fences);
    let mut compared = 0;
    for page in pages() {
        for block in rust_blocks(&page) {
            assert!(
                is_compiled(&block),
                "{}: add this block to {}:\n{block}",
                page.name,
                file!()
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 4, "rust blocks were found");
}

#[test]
fn a_rust_block_that_is_not_compiled_is_found() {
    let page = Page {
        name: "docs/page.md".to_owned(),
        text: "```rust\npermit.refresh().await?;\n```\n".to_owned(),
    };
    let blocks = rust_blocks(&page);
    assert_eq!(blocks.len(), 1);
    assert!(!is_compiled(&blocks[0]));
}

fn rust_blocks(page: &Page) -> Vec<String> {
    if !page.name.starts_with("docs/") {
        return Vec::new();
    }
    let blocks = page.blocks().into_iter();
    let rust = blocks.filter(|block| block.info == "rust");
    rust.map(|block| {
        let lines = page.text.lines().skip(block.line);
        let lines: Vec<_> = lines.take_while(|line| !line.starts_with("```")).collect();
        lines.join("\n")
    })
    .collect()
}

/// Whether this file has the lines of `block` one after the other, but for indentation.
fn is_compiled(block: &str) -> bool {
    let plain = |text: &str| -> String {
        let lines = text.lines().map(str::trim);
        lines.map(|line| format!("{line}\n")).collect()
    };
    plain(include_str!("rust_blocks.rs")).contains(&plain(block))
}
