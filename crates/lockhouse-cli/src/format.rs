//! The two forms of output.

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Words and columns, for people.
    Table,
    /// One line of JSON, the same as the HTTP API answers.
    Json,
}
