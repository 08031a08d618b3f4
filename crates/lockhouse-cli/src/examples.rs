//! The examples in the help texts are commands that work.

use clap::{Command, CommandFactory, Parser};

use crate::args::Cli;

#[test]
fn every_example_in_a_help_text_parses() {
    let cli = Cli::command();
    let mut tried = 0;
    for command in cli.get_subcommands().chain([&cli]) {
        for example in examples(command) {
            let words = words(&example);
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{example}\n{words:?}\n{error}");
            }
            tried += 1;
        }
    }
    assert!(tried > 20, "only {tried} examples were found");
}

#[test]
fn every_verb_has_examples() {
    let cli = Cli::command();
    let shown = cli.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in shown {
        assert!(!examples(verb).is_empty(), "{} has none", verb.get_name());
    }
}

#[test]
fn the_arguments_are_consistent() {
    Cli::command().debug_assert();
}

/// The parts from `lockhouse` on, up to where another shell command begins.
fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string);
    let lines = help.unwrap_or_default();
    lines
        .lines()
        .filter_map(|line| {
            let begin = line.trim_start().strip_prefix("id=$(");
            let line = begin.unwrap_or(line.trim_start());
            line.starts_with("lockhouse ").then(|| line.to_owned())
        })
        .collect()
}

/// The words of a line, split as a shell splits them.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            '|' | '>' if !quoted => break,
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
