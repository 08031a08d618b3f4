//! The settings of `serve`: from flags, from the environment, and from a file such as `lockhouse.toml`.
//!
//! A key of the file is the name of a flag with `_` for `-`. [`parse`] appends a key as a flag to
//! the arguments, unless a flag or a
//! variable sets it already, and reads the arguments again. So clap checks every value in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Error, FromArgMatches};
use toml::{Table, Value};

use crate::args::{Cli, Task};
use crate::setting::{From, Setting};
use crate::upkeep::shown_check;
use crate::verbs::Verb;

/// The flags that are no settings: they control what to do with the settings or how to print, or
/// are for clients of a server.
const NO_SETTINGS: [&str; 7] = [
    "config",
    "check-config",
    "output",
    "token-file",
    "ca-file",
    "help",
    "version",
];

/// The variable that clap does not read itself.
const URL_VARIABLE: &str = "LOCKHOUSE_URL";

/// How similar an unknown key and a known one must be, from 0 to 1, to suggest the known one.
const ALIKE: f64 = 0.75;

/// Reads `args`, and the file of settings that they name.
pub(crate) fn parse(mut args: Vec<OsString>) -> Result<Cli, Error> {
    let mut matches = Cli::command().try_get_matches_from(&args)?;
    let Some(("serve", serve)) = matches.subcommand() else {
        return Cli::from_arg_matches(&matches);
    };
    let known = Known::new();
    let mut in_file = BTreeSet::new();
    if let Some(file) = serve.get_one::<PathBuf>("config").cloned() {
        let in_that = |problem: String| refused(format!("{}: {problem}", file.display()));
        for (key, flags) in known.flags(&file).map_err(in_that)? {
            if !known.is_set(&key, serve) {
                args.extend(flags);
                in_file.insert(key);
            }
        }
        let again = Cli::command().try_get_matches_from(&args);
        matches = again.map_err(|error| {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            refused(format!("{}: {}", file.display(), text.trim_end()))
        })?;
    }
    let mut cli = Cli::from_arg_matches(&matches)?;
    if let Some((_, serve)) = matches.subcommand()
        && let Task::Verb(verb) = &mut cli.task
        && let Verb::Serve(verb) = verb.as_mut()
    {
        verb.settings = known.in_effect(serve, &in_file);
    }
    Ok(cli)
}

fn refused(message: String) -> Error {
    Error::raw(ErrorKind::ValueValidation, message)
}

/// The flags of `serve` that are settings, by their keys.
struct Known(BTreeMap<String, Arg>);

impl Known {
    fn new() -> Self {
        let mut command = Cli::command();
        command.build();
        let serve = command.find_subcommand("serve").map(Command::get_arguments);
        let flags = serve.into_iter().flatten().filter_map(|flag| {
            let name = flag.get_long().filter(|name| !NO_SETTINGS.contains(name))?;
            Some((name.replace('-', "_"), flag.clone()))
        });
        Self(flags.collect())
    }

    /// The keys that the file at `path` sets, and the flags that set the same.
    fn flags(&self, path: &Path) -> Result<Vec<(String, Vec<OsString>)>, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        // The parser's message shows the line, which may contain a password.
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error
                .span()
                .map_or("", |span| text.get(..span.start).unwrap_or(""));
            format!(
                "line {}: {}",
                before.matches('\n').count() + 1,
                error.message()
            )
        })?;
        let flags = table.into_iter().map(|(key, value)| {
            let flag = self.0.get(&key).ok_or_else(|| self.unknown(&key))?;
            let words = words(flag, value).map_err(|takes| format!("{key} takes {takes}"))?;
            Ok((key, words))
        });
        flags.collect()
    }

    fn unknown(&self, key: &str) -> String {
        let likeness = |known: &str| strsim::jaro_winkler(known, key);
        let nearest = self
            .0
            .keys()
            .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        // It may be a URL that lacks its name.
        let shown = lockhouse::without_credentials(key);
        match nearest.filter(|known| likeness(known) >= ALIKE) {
            Some(known) => format!("{shown} is not a setting; a similar one is {known}"),
            None => format!("{shown} is not a setting; lockhouse serve --check-config lists all"),
        }
    }

    /// Whether a flag or a variable sets it.
    fn is_set(&self, key: &str, serve: &ArgMatches) -> bool {
        let set = self.source(key, serve);
        set.is_some_and(|source| source != ValueSource::DefaultValue)
            || (key == "url" && env::var_os(URL_VARIABLE).is_some())
    }

    fn source(&self, key: &str, serve: &ArgMatches) -> Option<ValueSource> {
        serve.value_source(self.0.get(key)?.get_id().as_str())
    }

    fn in_effect(&self, serve: &ArgMatches, in_file: &BTreeSet<String>) -> Vec<Setting> {
        let settings = self.0.iter().map(|(key, flag)| {
            let raw = serve.get_raw(flag.get_id().as_str()).into_iter().flatten();
            let from = match self.source(key, serve) {
                _ if in_file.contains(key) => From::File,
                Some(ValueSource::CommandLine) => From::Flag,
                Some(ValueSource::EnvVariable) => From::Variable,
                None if self.is_set(key, serve) => From::Variable,
                _ => From::Default,
            };
            let variable = flag
                .get_env()
                .map(|name| name.to_string_lossy().into_owned());
            let variable = variable.or_else(|| (key == "url").then(|| URL_VARIABLE.to_owned()));
            let defaults = flag.get_default_values().iter();
            let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
            let help = flag.get_long_help().or(flag.get_help());
            Setting {
                key: key.clone(),
                values: raw
                    .map(|value| shown(key, &value.to_string_lossy()))
                    .collect(),
                from,
                is_switch: is_switch(flag),
                flag: format!("--{}", key.replace('_', "-")),
                variable,
                default: (!defaults.is_empty()).then(|| defaults.join(",")),
                meaning: help.map(ToString::to_string).unwrap_or_default(),
            }
        });
        settings.collect()
    }
}

/// A value without the credentials of its URL.
fn shown(key: &str, value: &str) -> String {
    match key {
        "check" => shown_check(value),
        _ => lockhouse::without_credentials(value),
    }
}

fn is_switch(flag: &Arg) -> bool {
    matches!(flag.get_action(), ArgAction::SetTrue)
}

/// `value` as arguments, or an error that says what the flag takes.
fn words(flag: &Arg, value: Value) -> Result<Vec<OsString>, &'static str> {
    let name = flag.get_long().unwrap_or_default();
    let word = |value: Value| match value {
        Value::String(text) => Some(format!("--{name}={text}").into()),
        Value::Integer(number) => Some(format!("--{name}={number}").into()),
        _ => None,
    };
    if is_switch(flag) {
        return match value {
            Value::Boolean(true) => Ok(vec![format!("--{name}").into()]),
            Value::Boolean(false) => Ok(Vec::new()),
            _ => Err("true or false"),
        };
    }
    match value {
        Value::Array(values) if matches!(flag.get_action(), ArgAction::Append) => {
            let words: Option<Vec<_>> = values.into_iter().map(word).collect();
            words.ok_or("a list of texts")
        }
        value => word(value)
            .map(|word| vec![word])
            .ok_or("a text or a number"),
    }
}
