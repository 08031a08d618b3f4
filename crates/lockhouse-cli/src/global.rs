//! The options that all verbs share.

use std::env;

use clap::Args;

use crate::failure::Failure;
use crate::format::Format;
use crate::place::Place;

#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Where the permits live: sqlite:PATH, mysql://…, mariadb://…, postgres://…, redis://… or a server's http(s)://…; by
    /// default an SQLite file in your state folder [env: LOCKHOUSE_URL]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
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
    pub(crate) fn place(&self) -> Result<Place, Failure> {
        Place::new(self.url.clone(), env::var("LOCKHOUSE_URL"))
    }
}
