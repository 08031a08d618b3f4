//! The wording of documentation: a sentence names its actor, so none opens with "Who", "Whoever" or "What", and
//! phrases that make a reader look back are left out.

use std::fs;

use crate::pages::{files, pages, root};

const OPENINGS: &[&str] = &[
    "Who ",
    "Whoever ",
    "Whom ",
    "Whose ",
    "What ",
    "That which ",
    "Of those ",
];

const PHRASES: &[&str] = &[
    " anew",
    " be it ",
    " by now",
    " for want of ",
    " let go",
    " sees to it ",
    " is told of ",
    " are told of ",
];

#[test]
fn comments_name_their_actor() {
    let mut problems = Vec::new();
    for file in files("rs") {
        if file.starts_with("crates/") && file.contains("/src/") {
            let source = fs::read_to_string(root().join(&file)).unwrap();
            for (line, paragraph) in comments(&source) {
                problems.extend(problem(&paragraph).map(|found| format!("{file}:{line}: {found}")));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn pages_name_their_actor() {
    let mut problems = Vec::new();
    for page in pages() {
        let is_guide = page.name.starts_with("docs/") && !page.name.starts_with("docs/adr/");
        if !is_guide && page.name != "README.md" {
            continue;
        }
        for (line, text) in paragraphs(page.prose().into_iter()) {
            problems.extend(problem(&text).map(|found| format!("{}:{line}: {found}", page.name)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_sentence_without_an_actor_is_found() {
    let source = "/// Ends it. Whoever\n/// waits is told.\n\n//! What is due.\nfn f() {}\n// Counted anew.\n";
    let found: Vec<_> = comments(source)
        .iter()
        .filter_map(|(line, text)| problem(text).map(|found| (*line, found)))
        .collect();
    let expected = [
        (1, "\"Whoever\" opens a sentence".to_owned()),
        (4, "\"What\" opens a sentence".to_owned()),
        (6, "\"anew\" has a plainer word".to_owned()),
    ];
    assert_eq!(found, expected);
    for right in [
        "Ends it.",
        "What now?",
        "Says what is due. Whoa.",
        "`What` is a word.",
    ] {
        assert_eq!(problem(right), None, "{right}");
    }
}

/// The paragraphs of the comments in `source`, each with its first line.
fn comments(source: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let lines = source.lines().enumerate().map(|(index, line)| {
        let line = line.trim_start();
        let text = ["///", "//!", "//"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark));
        let text = text.map_or("", str::trim);
        is_code ^= text.starts_with("```");
        (index + 1, if is_code { "" } else { text })
    });
    paragraphs(lines)
}

/// Runs of lines with text, each joined; a heading, a row of a table and an item of a list begin one.
fn paragraphs<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in lines {
        let text = line.trim();
        if is_open && !text.starts_with(['#', '|', '-', '*']) && !text.is_empty() {
            let last = found.last_mut().unwrap();
            last.1.push(' ');
            last.1.push_str(text);
            continue;
        }
        is_open = !text.is_empty() && !text.starts_with(['#', '|']);
        if is_open {
            found.push((number, text.trim_start_matches(['-', '*', ' ']).to_owned()));
        }
    }
    found
}

fn problem(paragraph: &str) -> Option<String> {
    let mut sentences = paragraph
        .split_inclusive(". ")
        .flat_map(|part| part.split_inclusive("? "));
    let opens = sentences.find_map(|sentence| {
        let opening = OPENINGS
            .iter()
            .find(|opening| sentence.starts_with(*opening))?;
        (!sentence.trim_end().ends_with('?')).then_some(*opening)
    });
    if let Some(opening) = opens {
        return Some(format!("{:?} opens a sentence", opening.trim()));
    }
    let phrase = PHRASES.iter().find(|phrase| paragraph.contains(*phrase))?;
    Some(format!("{:?} has a plainer word", phrase.trim()))
}
