//! The options that all verbs share.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use lockhouse::{ConnectOptions, Secret};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::Format;
use crate::target::Target;

#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Where the permits live: sqlite:PATH, mysql://…, mariadb://…, postgres://…, redis://… or a
    /// server's http(s)://…; by
    /// default an SQLite file in your state folder [env: LOCKHOUSE_URL]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// A file with the access token for a server; by default the token is that of LOCKHOUSE_TOKEN
    #[arg(long, global = true, value_name = "FILE", env = "LOCKHOUSE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file with the certificates to trust at an https:// URL, instead of the machine's own
    #[arg(long, global = true, value_name = "FILE", env = "LOCKHOUSE_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// How to print results, and errors
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value_t = Format::Table,
        value_name = "FORMAT"
    )]
    pub(crate) output: Format,
}

impl Global {
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        let target = Target::new(self.url.clone(), env::var("LOCKHOUSE_URL"))?;
        match target.is_server() {
            true => Ok(target.with(self.options()?)),
            // A database's URL has all that is needed.
            false => Ok(target),
        }
    }

    fn options(&self) -> Result<ConnectOptions, Failure> {
        let mut options = match &self.token_file {
            // The environment variable is ignored then.
            Some(file) => ConnectOptions::new().token(token_in(file)?),
            None => ConnectOptions::from_env()?,
        };
        if let Some(file) = &self.ca_file {
            options = options.ca_file(file);
        }
        Ok(options)
    }
}

fn token_in(file: &Path) -> Result<Secret, Failure> {
    let usage = |problem: String| {
        let message = format!("--token-file {}: {problem}", file.display());
        Failure::with_exit(Exit::USAGE, message)
    };
    let text = fs::read_to_string(file).map_err(|error| usage(error.to_string()))?;
    let token = text.trim().parse::<Secret>();
    token.map_err(|invalid| usage(invalid.to_string()))
}
