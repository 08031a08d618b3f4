//! Command blocks. `sh` is run by a test (`lockhouse-cli/tests/cli/readme.rs` and `guides.rs`); `sh no-run` is not, and
//! stands in the list below with its reason.

use crate::pages::{Page, pages};

/// Pages, how many of their blocks no test runs, and why.
const NOT_RUN: &[(&str, usize, &str)] = &[
    ("CONTRIBUTING.md", 1, "takes minutes on each store"),
    (
        "clients/contract/README.md",
        1,
        "scripts/test-clients does it",
    ),
    ("clients/go/README.md", 2, "needs Go; scripts/test-clients"),
    (
        "clients/java/README.md",
        1,
        "needs Maven; scripts/test-clients",
    ),
    (
        "clients/python/README.md",
        2,
        "needs PyPI; scripts/test-clients",
    ),
    (
        "clients/typescript/README.md",
        2,
        "needs npm; scripts/test-clients",
    ),
    ("docs/benchmarks.md", 2, "takes half an hour"),
    ("docs/concepts/leases.md", 1, "names the reader's database"),
    (
        "docs/guides/move-from-hand-written-locks.md",
        2,
        "names the reader's database; lockhouse-lab/tests/program.rs plays some of the scenes on Redis",
    ),
    (
        "docs/guides/protect-a-resource.md",
        1,
        "calls the reader's server",
    ),
    (
        "docs/guides/run-a-server.md",
        1,
        "installs a package and needs systemd; scripts/test-package does the same without",
    ),
    (
        "docs/how-it-works/clusters.md",
        1,
        "names the reader's cluster",
    ),
    ("docs/proof.md", 4, "the tests themselves, and long runs"),
    (
        "docs/runs/bounds.md",
        1,
        "tests, and one with a size that few machines allow",
    ),
    ("docs/runs/clients.md", 1, "takes ten minutes"),
];

#[test]
fn every_command_block_is_run_or_listed() {
    let mut not_run = Vec::new();
    for page in pages() {
        let problems = unknown_blocks(&page);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        let marked = page.blocks();
        let marked = marked.iter().filter(|block| block.info == "sh no-run");
        match marked.count() {
            0 => {}
            count => not_run.push((page.name, count)),
        }
    }
    let listed: Vec<_> = NOT_RUN
        .iter()
        .map(|(page, count, _)| ((*page).to_owned(), *count))
        .collect();
    assert_eq!(not_run, listed, "blocks marked `sh no-run`, and NOT_RUN");
}

#[test]
fn a_block_that_no_test_runs_is_found() {
    let page = |name: &str, info: &str| Page {
        name: name.to_owned(),
        text: format!("```{info}\nls\n```\n"),
    };
    for (name, info) in [
        ("docs/page.md", "bash"),
        ("docs/page.md", "console"),
        ("docs/page.md", "sh norun"),
        ("docs/page.md", "sh redis"),
        ("CONTRIBUTING.md", "sh"),
        ("docs/page.md", ""),
    ] {
        assert_eq!(unknown_blocks(&page(name, info)).len(), 1, "{name}: {info}");
    }
    for (name, info) in [
        ("docs/page.md", "sh"),
        ("docs/page.md", "sh no-run"),
        ("docs/page.md", "text"),
        ("README.md", "sh tour"),
    ] {
        assert!(
            unknown_blocks(&page(name, info)).is_empty(),
            "{name}: {info}"
        );
    }
}

/// Blocks of commands that are neither run nor marked, and blocks that do not say what they are.
fn unknown_blocks(page: &Page) -> Vec<String> {
    let blocks = page.blocks().into_iter();
    let unknown = blocks.filter(|block| {
        let mut words = block.info.split(' ');
        match words.next() {
            None | Some("" | "bash" | "console" | "shell" | "zsh") => true,
            Some("sh") => !is_run(&page.name, words.next()) && block.info != "sh no-run",
            Some(_) => false,
        }
    });
    unknown
        .map(|block| {
            format!(
                "{}:{}: ```{}: write `sh` where a test runs it, `sh no-run` where none does, or the language",
                page.name, block.line, block.info
            )
        })
        .collect()
}

/// The README by `lockhouse-cli/tests/cli/readme.rs`, pages in `docs/` by `guides.rs`.
fn is_run(page: &str, mark: Option<&str>) -> bool {
    match mark {
        None => page == "README.md" || page.starts_with("docs/"),
        Some("tour") => page == "README.md",
        Some("redis") => page == "docs/guides/protect-a-resource.md",
        Some(_) => false,
    }
}
