//! The string literals of Rust source.

use std::str::Chars;

/// The text of each string literal in `source` with its line. A `\` at the end of a line joins it to the next, and `\n`
/// ends a line of the text.
pub(crate) fn literals(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = source.chars();
    let mut is_in_name = false;
    loop {
        let text = rest.as_str();
        let line = || 1 + source[..source.len() - text.len()].matches('\n').count();
        if text.starts_with("//") {
            skip_to(&mut rest, "\n");
        } else if text.starts_with("/*") {
            skip_to(&mut rest, "*/");
        } else if let Some(end) = raw_end(text).filter(|_| !is_in_name) {
            skip_to(&mut rest, "\"");
            found.push((line(), skip_to(&mut rest, &end).to_owned()));
        } else if text.starts_with('"') {
            rest.next();
            found.push((line(), escaped(&mut rest)));
        } else if let Some(character) = character(text) {
            rest = text[character..].chars();
        } else if rest.next().is_none() {
            return found;
        }
        is_in_name = text.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    }
}

/// Skips the next `end` and the text before it. Returns the text before it.
fn skip_to<'a>(rest: &mut Chars<'a>, end: &str) -> &'a str {
    let text = rest.as_str();
    let (before, after) = text.split_once(end).unwrap_or((text, ""));
    *rest = after.chars();
    before
}

/// The end of the raw string that `text` begins with.
fn raw_end(text: &str) -> Option<String> {
    let text = text.strip_prefix('b').unwrap_or(text).strip_prefix('r')?;
    let (hashes, _) = text.split_once('"')?;
    let is_raw = hashes.bytes().all(|byte| byte == b'#');
    is_raw.then(|| format!("\"{hashes}"))
}

/// The rest of a string literal that is not raw.
fn escaped(rest: &mut Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(c) = rest.next().filter(|c| *c != '"') {
        match c {
            '\\' => match rest.next() {
                Some('\n') => *rest = rest.as_str().trim_start().chars(),
                Some('n') => text.push('\n'),
                other => text.extend(other),
            },
            c => text.push(c),
        }
    }
    text
}

/// The length of the character literal that `text` begins with. A lifetime is none.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    // The character behind a backslash may be a quote.
    let skipped = match inner.starts_with('\\') {
        true => 2,
        false => inner.chars().next()?.len_utf8(),
    };
    let end = inner.get(skipped..)?.find('\'')?;
    let is_character = skipped == 2 && inner.starts_with('\\') || end == 0;
    is_character.then_some(1 + skipped + end + 1)
}

#[test]
fn literals_are_found() {
    let source = r####"
// "a comment" and 'this'
let a = "one \"two\" \
         three\nfour";
let b = ['"', '\'', '\u{22}', 'ü']; let c: &'static str = r#"raw "text""#;
/* "a comment" */
let xr = br"bytes"; for_r"x";
"####;
    let expected = [
        (3, "one \"two\" three\nfour"),
        (5, "raw \"text\""),
        (7, "bytes"),
        (7, "x"),
    ];
    let expected = expected.map(|(line, text)| (line, text.to_owned()));
    assert_eq!(literals(source), expected);
}
