//! `docs/reference/command-line.md` is the help of the program. To write it anew:
//!
//! ```sh
//! UPDATE_REFERENCE=1 cargo test -p lockhouse-cli --test reference
//! ```

#![allow(clippy::unwrap_used)]

#[path = "binary/mod.rs"]
mod binary;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

const INTRODUCTION: &str = "\
# Command line

<!-- Generated from the help of the program by crates/lockhouse-cli/tests/reference.rs. Do not edit. -->

`lockhouse help VERB` prints these texts. `-o json` makes every command that prints a result print one line of JSON instead,
the same as the HTTP API answers. Every command has the options `--url`, `--output` and `--help` of the first section. Settings and environment variables: [Settings](settings.md).
";

#[test]
fn the_command_line_reference_is_the_help_of_the_program() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line.md");
    let generated = reference();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(&page, &generated).unwrap();
    }
    let written = fs::read_to_string(&page).unwrap_or_default();
    assert!(
        written == generated,
        "docs/reference/command-line.md is stale; run UPDATE_REFERENCE=1 cargo test -p lockhouse-cli --test reference"
    );
}

#[test]
fn settings_md_has_every_flag_and_variable_of_serve() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/settings.md");
    let page = fs::read_to_string(page).unwrap();
    let help = help(&["serve"]);
    let options = help.split_once("Options:").unwrap().1;
    let options = options.split_once("\nExamples:").unwrap().0;
    let words = options.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    let is_setting = |word: &&str| {
        let flag = word.strip_prefix("--").is_some_and(|name| !name.is_empty());
        let standard = ["--help", "--version"].contains(word);
        (flag && !standard) || word.starts_with("LOCKHOUSE_")
    };
    let settings: Vec<_> = words.filter(is_setting).collect();
    assert!(settings.len() > 20, "{settings:?}");
    for setting in settings {
        assert!(
            page.contains(&format!("`{setting}`")),
            "docs/reference/settings.md lacks {setting}"
        );
    }
}

fn reference() -> String {
    let main = help(&[]);
    let mut page = INTRODUCTION.to_owned();
    section(&mut page, "lockhouse", &main);
    let verbs = verbs(&main);
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in verbs {
        let text = without_shared_options(&help(&[&verb]));
        section(&mut page, &format!("lockhouse {verb}"), &text);
        if verb != "help" {
            for verb_of_it in self::verbs(&text) {
                let title = format!("lockhouse {verb} {verb_of_it}");
                let text = without_shared_options(&help(&[&verb, &verb_of_it]));
                section(&mut page, &title, &text);
            }
        }
    }
    page
}

/// Without the options that every command has, which the first section describes.
fn without_shared_options(help: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_shared = false;
    for line in help.lines() {
        let begins_option = line.starts_with("  -") || line.starts_with("      --");
        if begins_option {
            let shared = ["--url <URL>", "--output <FORMAT>", "--help"];
            is_shared = shared.iter().any(|option| line.contains(option));
        } else if !line.is_empty() && !line.starts_with(' ') {
            is_shared = false;
        }
        if !is_shared {
            kept.push(line);
        }
    }
    let text = kept.join("\n");
    text.replace("\nOptions:\nExamples:", "\nExamples:")
        .replace("\n\n\n", "\n\n")
}

/// What the help says of a command, as prose, and the rest as it is printed.
fn section(page: &mut String, title: &str, help: &str) {
    let (about, usage) = help.split_once("Usage: ").unwrap();
    let about = about.trim();
    write!(
        page,
        "\n## {title}\n\n{about}\n\n```text\nUsage: {}\n```\n",
        usage.trim_end()
    )
    .unwrap();
}

/// The names below "Commands:", but for `help`.
fn verbs(help: &str) -> Vec<String> {
    let Some((_, commands)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let lines = commands.lines().take_while(|line| !line.is_empty());
    // Deeper lines go on with what the line before says.
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

fn help(verb: &[&str]) -> String {
    let mut command = Command::new(binary::lockhouse());
    command.args(verb).arg("--help");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCKHOUSE_")) {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{verb:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}
