//! The tokens of Rust source, as far as imports need them.

/// Whether `token` is a name.
pub(crate) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single other characters, without comments and literals.
pub(crate) fn tokens(source: &str) -> Vec<String> {
    let chars: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    let starts = |at: usize, text: &str| {
        text.chars()
            .enumerate()
            .all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    while let Some(&c) = chars.get(at) {
        if starts(at, "//") {
            while chars.get(at).is_some_and(|c| *c != '\n') {
                at += 1;
            }
        } else if starts(at, "/*") {
            let mut depth = 0;
            while at < chars.len() {
                if starts(at, "/*") {
                    depth += 1;
                    at += 2;
                } else if starts(at, "*/") {
                    depth -= 1;
                    at += 2;
                    if depth == 0 {
                        break;
                    }
                } else {
                    at += 1;
                }
            }
        } else if c == '"' {
            let from = at;
            at += 1;
            while chars.get(at).is_some_and(|c| *c != '"') {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
            tokens.push(chars[from..at].iter().collect());
        } else if c == 'r' && (starts(at, "r\"") || starts(at, "r#\"") || starts(at, "r##\""))
            || starts(at, "br\"")
            || starts(at, "br#\"")
        {
            while chars[at] != '#' && chars[at] != '"' {
                at += 1;
            }
            let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
            at += hashes + 1;
            let end = format!("\"{}", "#".repeat(hashes));
            while at < chars.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
        } else if c == '\'' {
            // The quote begins a character, or else a lifetime.
            if chars.get(at + 1) == Some(&'\\') {
                at += 3;
                while chars.get(at).is_some_and(|c| *c != '\'') {
                    at += 1;
                }
                at += 1;
            } else if chars.get(at + 2) == Some(&'\'') {
                at += 3;
            } else {
                at += 1;
            }
        } else if c.is_alphanumeric() || c == '_' {
            let name: String = chars[at..]
                .iter()
                .take_while(|c| c.is_alphanumeric() || **c == '_')
                .collect();
            at += name.chars().count();
            tokens.push(name);
        } else if starts(at, "::") {
            tokens.push("::".to_owned());
            at += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            at += 1;
        }
    }
    tokens
}
