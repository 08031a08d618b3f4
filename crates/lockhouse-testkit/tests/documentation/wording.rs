//! The wording of pages, of comments in code, and of messages: a sentence names its actor, so none opens with "Who", "Whoever" or
//! "What", and phrases that make a reader look back are left out.

use std::fs;

use serde_json::Value;

use crate::literals::literals;
use crate::names::functions;
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
    " as it is.",
    " as it is,",
    " as it is;",
    " be it",
    " by now",
    " for want of",
    " let go",
    " of its own",
    " sees to it",
    " those who",
    " told of",
    " whoever",
];

/// Parts of names of functions that make a reader look for the actor.
const NAMELESS: [&str; 2] = ["_who_", "_whoever_"];

const FOLDERS: [&str; 3] = ["clients/", "crates/", "scripts/"];

/// The endings of files, and the signs that open a comment there.
const LANGUAGES: &[(&[&str], &[&str])] = &[
    (&["rs"], &["///", "//!", "//"]),
    (&["c", "go", "java", "ts"], &["//", "/**", "/*", "*/", "*"]),
    (&["", "bash", "py", "sh"], HASH),
    (&["lua", "sql"], &["--"]),
];

const HASH: &[&str] = &["#"];

/// A string literal with fewer words is no message.
const WORDS: usize = 4;

/// Opens and ends a docstring of Python.
const QUOTES: &str = "\"\"\"";

#[test]
fn comments_name_their_actor() {
    let mut problems = Vec::new();
    for (endings, signs) in LANGUAGES {
        for file in endings.iter().flat_map(|ending| files(ending)) {
            if FOLDERS.iter().any(|folder| file.starts_with(folder)) {
                let source = fs::read_to_string(root().join(&file)).unwrap();
                let found = comments(&source, signs).into_iter();
                problems.extend(found.filter_map(|(line, text)| {
                    Some(format!("{file}:{line}: {}", problem(&text)?))
                }));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn messages_name_their_actor() {
    let mut problems = Vec::new();
    let mut many = 0;
    for file in files("rs") {
        if file.starts_with("crates/") && file.contains("/src/") {
            let source = fs::read_to_string(root().join(&file)).unwrap();
            for (line, text) in messages(&source) {
                many += 1;
                problems.extend(problem(&text).map(|found| format!("{file}:{line}: {found}")));
            }
        }
    }
    assert!(many > 1000, "{many} messages were found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn descriptions_of_the_api_name_their_actor() {
    let path = root().join("crates/lockhouse-server/src/openapi.json");
    let document = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut texts = Vec::new();
    descriptions(&document, &mut texts);
    assert!(texts.len() > 100, "{} were found", texts.len());
    let problems = texts.into_iter();
    let problems: Vec<_> = problems
        .filter_map(|text| Some(format!("{text}: {}", problem(text)?)))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Adds the descriptions and summaries in `value` to `texts`.
fn descriptions<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" || name == "summary" => {
                        texts.push(text);
                    }
                    other => descriptions(other, texts),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| descriptions(value, texts)),
        _ => {}
    }
}

#[test]
fn pages_name_their_actor() {
    let mut problems = Vec::new();
    for page in pages() {
        let is_in = |folder| page.name.starts_with(folder);
        let is_guide = is_in("docs/") || is_in("clients/");
        if !is_guide && page.name.contains('/') {
            continue;
        }
        for (line, text) in paragraphs(page.prose().into_iter()) {
            problems.extend(problem(&text).map(|found| format!("{}:{line}: {found}", page.name)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn names_of_tests_name_their_actor() {
    let mut problems = Vec::new();
    for file in files("rs") {
        if file.starts_with("crates/") {
            let names = functions(&fs::read_to_string(root().join(&file)).unwrap()).into_iter();
            let is_nameless = |name: &String| {
                let name = format!("_{name}");
                NAMELESS.iter().any(|part| name.contains(part))
            };
            let unnamed = names.filter(is_nameless);
            problems.extend(unnamed.map(|name| format!("{file}: {name}")));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_sentence_without_an_actor_is_found() {
    let source = "/// Ends it. Whoever\n/// waits is told.\n\n//! What is due.\nfn f() {}\n// Counted anew.\n";
    let found = problems_of(source, &["///", "//!", "//"]);
    let expected = [
        (1, "\"Whoever\" opens a sentence"),
        (4, "\"What\" opens a sentence"),
        (6, "\"anew\" has a plainer word"),
    ];
    assert_eq!(found, expected.map(owned));
    let labelled = problem("P3, P10: who waits is told. P4.");
    assert_eq!(labelled.as_deref(), Some("\"Who\" opens a sentence"));
    for right in [
        "Ends it.",
        "What now?",
        "Says what is due. Whoa.",
        "`What` is a word.",
        "The list of its owner, as it is stored.",
        "P1: whatever fails. P2: no sum.",
        "One of three: who waits, and where.",
    ] {
        assert_eq!(problem(right), None, "{right}");
    }
}

#[test]
fn messages_are_read() {
    let source = r#"
// "Whoever waits is told."
error("who waits is told; try again"); error("three words anew");
let usage = "\
Takes a name.

What is due
is done by now";
format!("{id} stays as \
         it is"); println!("what now, or later?");
"#;
    let expected = [
        (3, "\"Who\" opens a sentence"),
        (4, "\"What\" opens a sentence"),
        (9, "\"as it is.\" has a plainer word"),
    ];
    let found = messages(source).into_iter();
    let found = found.filter_map(|(line, text)| Some((line, problem(&text)?)));
    assert_eq!(found.collect::<Vec<_>>(), expected.map(owned));
}

#[test]
fn comments_of_other_languages_are_read() {
    let java = "/**\n * A hold.\n * Whoever asks.\n */\n/** As it\n * was by now. */";
    let expected = [
        (2, "\"Whoever\" opens a sentence"),
        (5, "\"by now\" has a plainer word"),
    ];
    assert_eq!(problems_of(java, &["/**", "*/", "*"]), expected.map(owned));
    let docstring = "Q What is due.\nQ\n\nx = Q\nWhat is due.\nQ\n# Left as it is.\n\nQWhat is due.Q\nWhat = 1\n";
    let expected = [
        (1, "\"What\" opens a sentence"),
        (7, "\"as it is.\" has a plainer word"),
        (9, "\"What\" opens a sentence"),
    ];
    let found = problems_of(&docstring.replace('Q', QUOTES), HASH);
    assert_eq!(found, expected.map(owned));
}

fn problems_of(source: &str, signs: &[&str]) -> Vec<(usize, String)> {
    comments(source, signs)
        .iter()
        .filter_map(|(line, text)| problem(text).map(|found| (*line, found)))
        .collect()
}

fn owned((line, text): (usize, &str)) -> (usize, String) {
    (line, text.to_owned())
}

/// The paragraphs of the string literals in `source` with at least [`WORDS`] words, each with the line where its literal
/// begins, and as a sentence with a capital and an end.
fn messages(source: &str) -> Vec<(usize, String)> {
    let long = literals(source)
        .into_iter()
        .filter(|(_, text)| text.split_whitespace().count() >= WORDS);
    let found = long.flat_map(|(line, text)| {
        let texts = paragraphs((1..).zip(text.lines()));
        let texts = texts.into_iter();
        texts.map(move |(_, text)| (line, sentence(&text)))
    });
    found.collect()
}

fn sentence(text: &str) -> String {
    let has_end = text.ends_with(['.', '?', ':']);
    let end = if has_end { "" } else { "." };
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.clone()).chain(end.chars()).collect()
}

/// The paragraphs of the comments in `source`, each with its first line.
fn comments(source: &str, signs: &[&str]) -> Vec<(usize, String)> {
    let texts = match signs {
        HASH => docstrings(source),
        _ => source.lines().map(|_| None).collect(),
    };
    let mut is_code = false;
    let lines = source.lines().zip(texts).map(|(line, docstring)| {
        // The line that names the interpreter is no comment.
        let line = line.trim();
        let line = if line.starts_with("#!/") { "" } else { line };
        let comment = signs.iter().find_map(|sign| line.strip_prefix(sign));
        let text = docstring.or(comment).unwrap_or_default().trim();
        is_code ^= text.starts_with("```");
        if is_code { "" } else { text }
    });
    paragraphs((1..).zip(lines))
}

/// The text of a docstring on each line of `source`, and "" on a line of another string of several lines.
fn docstrings(source: &str) -> Vec<Option<&str>> {
    let mut is_open = false;
    let mut is_docstring = false;
    let lines = source.lines().map(|line| {
        let line = line.trim();
        let was_open = is_open;
        is_open ^= !line.matches(QUOTES).count().is_multiple_of(2);
        if !was_open {
            is_docstring = line.starts_with(QUOTES);
        }
        let text = match was_open {
            true => line,
            false => line.strip_prefix(QUOTES).unwrap_or_default(),
        };
        let text = text.split(QUOTES).next().filter(|_| is_docstring);
        (was_open || is_open || is_docstring).then(|| text.unwrap_or_default())
    });
    lines.collect()
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
        let opens = |opening: &&&str| {
            let after_promises = after_promises(sentence).unwrap_or_default();
            sentence.starts_with(**opening) || after_promises.starts_with(&opening.to_lowercase())
        };
        let opening = OPENINGS.iter().find(opens)?;
        (!sentence.trim_end().ends_with('?')).then_some(*opening)
    });
    if let Some(opening) = opens {
        return Some(format!("{:?} opens a sentence", opening.trim()));
    }
    let phrase = PHRASES.iter().find(|phrase| has(paragraph, phrase))?;
    Some(format!("{:?} has a plainer word", phrase.trim()))
}

/// The sentence after the promises that it is about, as in `P3, P10: a waiter that …`, if it names promises.
fn after_promises(sentence: &str) -> Option<&str> {
    let (promises, rest) = sentence.split_once(": ")?;
    let is_promise = |word: &str| {
        let number = word.strip_prefix('P').unwrap_or_default();
        matches!(word, "" | "and" | "to") || number.parse::<u8>().is_ok()
    };
    promises.split([',', ' ']).all(is_promise).then_some(rest)
}

/// Whether `phrase` is in `paragraph` and ends with a word there.
fn has(paragraph: &str, phrase: &str) -> bool {
    let mut after = paragraph.split(phrase).skip(1);
    after.any(|rest| !rest.starts_with(char::is_alphanumeric))
}
