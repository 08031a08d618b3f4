//! Links between pages, and the pages that code and scripts name.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::pages::{Page, files, pages, root};

#[test]
fn every_relative_link_and_anchor_resolves() {
    let pages = pages();
    let anchors: HashMap<_, _> = pages
        .iter()
        .map(|page| (page.name.clone(), page.anchors()))
        .collect();
    let broken: Vec<_> = pages
        .iter()
        .flat_map(|page| broken_links(page, &anchors))
        .collect();
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn broken_links_are_found() {
    let page = Page {
        name: "docs/page.md".to_owned(),
        text:
            "[a](gone.md) [b](../README.md#no-such-heading) [c](#nowhere) [d](https://x.example)\n\
               ```\n[e](gone.md)\n```\n`[f](gone.md)` [g](../README.md)\n[1]: gone.md\n"
                .to_owned(),
    };
    let anchors = HashMap::from([
        ("docs/page.md".to_owned(), HashSet::new()),
        ("README.md".to_owned(), HashSet::new()),
    ]);
    assert_eq!(
        broken_links(&page, &anchors),
        [
            "docs/page.md:1: gone.md",
            "docs/page.md:1: ../README.md#no-such-heading",
            "docs/page.md:1: #nowhere",
            "docs/page.md:6: gone.md",
        ]
    );
}

#[test]
fn every_page_in_docs_is_linked_from_another() {
    let pages = pages();
    let linked: HashSet<_> = pages
        .iter()
        .flat_map(|page| {
            let targets = links(page).into_iter();
            targets.filter_map(|(_, link)| resolve(&page.name, link.split('#').next()?))
        })
        .collect();
    let alone: Vec<_> = pages
        .iter()
        .map(|page| page.name.as_str())
        .filter(|name| name.starts_with("docs/") && !linked.contains(&PathBuf::from(name)))
        .collect();
    assert!(alone.is_empty(), "no page links to {alone:?}");
}

/// Such as `docs/adr/0001-sql-drivers.md` in a comment or a message.
#[test]
fn pages_that_code_and_scripts_name_exist() {
    let mut missing = Vec::new();
    let scripts = [
        "scripts/bench",
        "scripts/cluster-run",
        "scripts/test",
        "scripts/torture",
    ];
    let code = ["rs", "py", "ts", "go", "java", "json", "html", "toml"];
    let code = code.iter().flat_map(|ending| files(ending));
    let names = code.chain(scripts.map(str::to_owned));
    for name in names.filter(|name| !name.contains("tests/documentation/")) {
        let text = fs::read_to_string(root().join(&name)).unwrap();
        for mention in mentions(&text) {
            if !root().join(mention).is_file() {
                missing.push(format!("{name}: {mention}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "pages that are missing:\n{}",
        missing.join("\n")
    );
}

/// The paths in a text that begin with `docs/` and end with `.md`.
fn mentions(text: &str) -> Vec<&str> {
    let path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    text.match_indices("docs/")
        .filter_map(|(at, _)| {
            let rest = &text[at..];
            let word = &rest[..rest.find(|c| !path(c)).unwrap_or(rest.len())];
            let end = word.rfind(".md")? + ".md".len();
            Some(&word[..end])
        })
        .collect()
}

fn broken_links(page: &Page, anchors: &HashMap<String, HashSet<String>>) -> Vec<String> {
    let broken = links(page)
        .into_iter()
        .filter(|(_, link)| !leads_somewhere(page, link, anchors));
    broken
        .map(|(line, link)| format!("{}:{line}: {link}", page.name))
        .collect()
}

fn leads_somewhere(page: &Page, link: &str, anchors: &HashMap<String, HashSet<String>>) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let Some(target) = resolve(&page.name, path) else {
        return false;
    };
    if !root().join(&target).exists() && target != Path::new(&page.name) {
        return false;
    }
    let target = target.to_string_lossy();
    anchor.is_empty()
        || anchors
            .get(target.as_ref())
            .is_none_or(|anchors| anchors.contains(anchor))
}

/// From the root; `None` if it leads out of the repository.
fn resolve(from: &str, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return Some(PathBuf::from(from));
    }
    let mut resolved = Path::new(from).parent()?.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => resolved.push(name),
            Component::ParentDir => {
                if !resolved.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

/// The relative links outside of code, with their lines.
fn links(page: &Page) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in page.prose() {
        let line = without_code(line);
        let inline = line
            .split("](")
            .skip(1)
            .filter_map(|after| after.split(')').next());
        let reference = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, target)| target.trim());
        links.extend(
            inline
                .chain(reference)
                .map(|link| (number, link.to_owned())),
        );
    }
    links.retain(|(_, link)| !link.contains("://") && !link.starts_with("mailto:"));
    links
}

/// A line without what is between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}
