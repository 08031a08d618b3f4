//! The arguments of the command.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::completions::Completions;
use crate::format::Format;
use crate::global::Global;
use crate::manual::Manual;
use crate::verbs::Verb;

const AFTER_HELP: &str = "\
Exit codes:
  0     done
  1     refused: unknown semaphore or request, conflict, request ended, capacity changed …
  64    usage: invalid arguments, values out of bounds
  69    the store or the server does not answer
  75    no permit in time
  76    the hold was lost while the command ran
  126   the command cannot be executed
  127   the command was not found
  128+n ended by signal n; else `run` exits as its command did

Examples:
  lockhouse create backup-slots 10
  lockhouse run -s backup-slots -- restic backup /home
  lockhouse list

`lockhouse help VERB` describes each command.";

/// A distributed counting semaphore: N workers do something at once, and no more
///
/// Lockhouse keeps permits in a database. A semaphore has a capacity, and at most that many of its permits are
/// held at the same time. `lockhouse run` holds permits while a command runs.
#[derive(Debug, Parser)]
#[command(name = "lockhouse", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    #[command(flatten)]
    Verb(Box<Verb>),
    Completions(Completions),
    #[command(name = "man")]
    Manual(Manual),
}

/// The output format that `args` ask for, even if they cannot be parsed.
pub(crate) fn output_in(args: impl IntoIterator<Item = OsString>) -> Format {
    let mut args = args.into_iter().take_while(|arg| arg != "--");
    while let Some(arg) = args.next() {
        let asked = match arg.to_str() {
            Some("-ojson" | "-o=json" | "--output=json") => true,
            Some("-o" | "--output") => args.next().is_some_and(|format| format == "json"),
            _ => false,
        };
        if asked {
            return Format::Json;
        }
    }
    Format::Table
}

/// `text`, which may repeat some of `args`, without the credentials of their URLs. An argument that
/// is not UTF-8 stays as clap shows it.
pub(crate) fn without_credentials(text: &str, args: impl IntoIterator<Item = OsString>) -> String {
    let args = args
        .into_iter()
        .map(|arg| arg.to_string_lossy().into_owned());
    let may_be_url = |arg: &String| arg.contains("://") || (arg.contains(':') && arg.contains('@'));
    let urls = args.filter(may_be_url);
    urls.fold(text.to_owned(), |text, url| {
        text.replace(&url, &lockhouse::without_credentials(&url))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_repeated_loses_its_credentials() {
        let args = ["lockhouse", "mysql://app:s3cr3t@db/x"].map(OsString::from);
        let told = without_credentials("unrecognized 'mysql://app:s3cr3t@db/x'", args);
        assert_eq!(told, "unrecognized 'mysql://db/x'");
    }

    #[test]
    fn the_output_format_is_known_though_other_arguments_are_wrong() {
        let output = |line: &str| output_in(line.split(' ').map(OsString::from));
        assert_eq!(output("lockhouse frob -o json"), Format::Json);
        assert_eq!(output("lockhouse --output=json show"), Format::Json);
        assert_eq!(output("lockhouse show json"), Format::Table);
        assert_eq!(output("lockhouse run -- jq -o json"), Format::Table);
    }
}
