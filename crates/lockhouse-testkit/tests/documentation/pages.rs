//! The Markdown pages of the repository, and the parts of a page.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold what tools made, and other people's code.
const NOT_OURS: [&str; 5] = ["target", "node_modules", "dist", "build", "sqlx-core"];

pub(crate) struct Page {
    /// From the root of the repository, such as `docs/proof.md`.
    pub(crate) name: String,
    pub(crate) text: String,
}

pub(crate) struct Block {
    /// The info string after the fence: `sh no-run`.
    pub(crate) info: String,
    pub(crate) line: usize,
}

pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap().to_owned()
}

/// All pages, in the order of their names.
pub(crate) fn pages() -> Vec<Page> {
    let pages: Vec<_> = files("md").into_iter().map(page).collect();
    assert!(pages.len() > 20, "{} pages were found", pages.len());
    pages
}

fn page(name: String) -> Page {
    let text = fs::read_to_string(root().join(&name)).unwrap();
    Page { name, text }
}

/// The names of all files with that ending, in order. Files without an ending have the ending "".
pub(crate) fn files(ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(&root(), ending, &mut found);
    found.sort();
    found
}

fn walk(folder: &Path, ending: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_symlink() || name.starts_with('.') || NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(&path, ending, found);
        } else if path.extension().unwrap_or_default() == ending {
            let name = path.strip_prefix(root()).unwrap();
            found.push(name.to_string_lossy().into_owned());
        }
    }
}

impl Page {
    /// The fenced blocks.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut inside = false;
        for (index, line) in self.text.lines().enumerate() {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            if !inside {
                blocks.push(Block {
                    info: info.trim().to_owned(),
                    line: index + 1,
                });
            }
            inside = !inside;
        }
        assert!(!inside, "{}: a fenced block does not end", self.name);
        blocks
    }

    /// The lines outside of fenced blocks, with their numbers.
    pub(crate) fn prose(&self) -> Vec<(usize, &str)> {
        let mut inside = false;
        let mut prose = Vec::new();
        for (index, line) in self.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                prose.push((index + 1, line));
            }
        }
        prose
    }

    /// The anchors that a link to this page may name, as GitHub makes them.
    pub(crate) fn anchors(&self) -> HashSet<String> {
        let mut anchors = HashSet::new();
        for (_, line) in self.prose() {
            if let Some(heading) = heading(line) {
                let anchor = slug(heading);
                let taken = (1..).map(|n| format!("{anchor}-{n}"));
                let mut free = std::iter::once(anchor.clone()).chain(taken);
                anchors.insert(free.find(|anchor| !anchors.contains(anchor)).unwrap());
            }
            for tag in line.split("<a id=\"").skip(1) {
                anchors.insert(tag.split('"').next().unwrap().to_owned());
            }
        }
        anchors
    }
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let depth = line.len() - text.len();
    ((1..=6).contains(&depth) && text.starts_with(' ')).then(|| text.trim())
}

/// Lower case, spaces as hyphens, and no punctuation. Of a link only its text counts.
fn slug(heading: &str) -> String {
    let mut plain = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then_some(c),
        })
        .collect()
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# Run a server\n## `run`, and what it waits for\n## Twice\n## Twice\n```\n# no heading\n```\n<a id=\"here\"></a>";
    let page = Page {
        name: "page.md".to_owned(),
        text: text.to_owned(),
    };
    let mut anchors: Vec<_> = page.anchors().into_iter().collect();
    anchors.sort();
    let expected = [
        "here",
        "run-a-server",
        "run-and-what-it-waits-for",
        "twice",
        "twice-1",
    ];
    assert_eq!(anchors, expected);
}
