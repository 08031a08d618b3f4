//! `lockhouse token`.

use std::time::Duration;

use clap::{Args, Subcommand};
use lockhouse::{Timestamp, Token, TokenGrant};
use lockhouse_wire::{self as wire, MadeToken};

use crate::complaint::complain;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::format::Format;
use crate::global::Global;
use crate::table;

/// Make, list and revoke access tokens
///
/// A server asks its callers for a token as soon as there is one. Create the first one on the
/// database itself; a token with admin:* creates the others, also through a server.
#[derive(Args, Debug)]
#[command(after_help = "\
Grants are VERB:PREFIX: read, hold, define, force or admin, on one name, or on all names
that begin with the text before a *. Only admin implies other verbs.

Examples:
  lockhouse token create admin --grant 'admin:*' --url mysql://app@db/lockhouse
  lockhouse token create ci --grant 'hold:customer/*' --grant 'read:*' --expires-in 90d
  lockhouse token list
  lockhouse token revoke ci")]
pub(crate) struct TokenVerb {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Create(Create),
    /// List tokens, including those that have expired or were revoked
    List,
    Revoke(Revoke),
}

/// Create a token, and print its secret, which cannot be shown again
#[derive(Args, Debug)]
struct Create {
    /// The token's name; its requests and owners belong to the name
    name: String,
    /// A right of the token, such as hold:customer/* or admin:*
    #[arg(long = "grant", value_name = "VERB:PREFIX", required = true)]
    grants: Vec<TokenGrant>,
    /// How long the token is valid: 12h, 90d; by default until it is revoked
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    expires_in: Option<Duration>,
}

/// Revoke a token: every server refuses it within 10 s
///
/// Its permits end with their TTL.
#[derive(Args, Debug)]
struct Revoke {
    /// Its name
    name: String,
}

impl TokenVerb {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        match self.task {
            Task::Create(create) => create.perform(global).await?,
            Task::List => list(global).await?,
            Task::Revoke(revoke) => {
                let lockhouse = global.target()?.connect().await?;
                lockhouse.revoke_token(&revoke.name).await?;
                let did = || format!("token \"{}\" revoked", revoke.name);
                global.output.say(did)?;
            }
        }
        Ok(Exit::OK)
    }
}

impl Create {
    async fn perform(self, global: &Global) -> Result<(), Failure> {
        let expires_at = match self.expires_in {
            Some(time) => Some(Timestamp::now().checked_add(time).map_err(|_| {
                Failure::with_exit(
                    Exit::USAGE,
                    "--expires-in is too long; give a shorter time, or leave it out",
                )
            })?),
            None => None,
        };
        let lockhouse = global.target()?.connect().await?;
        let making = lockhouse.create_token(&self.name, &self.grants, expires_at);
        let (token, secret) = making.await?;
        let delivered = global.output.deliver(
            || MadeToken {
                token: wire::Token::from(&token),
                secret: secret.reveal().to_owned(),
            },
            || secret.reveal().to_owned(),
        );
        if delivered.is_err() {
            // The secret could not be printed, so nobody has it.
            lockhouse.revoke_token(&self.name).await?;
        } else if global.output == Format::Table {
            complain("lockhouse: keep the token safe; it is not shown again");
        }
        delivered
    }
}

async fn list(global: &Global) -> Result<(), Failure> {
    let lockhouse = global.target()?.connect_to_read(global.output).await?;
    let tokens = lockhouse.tokens().await?;
    global.output.print(
        || wire::Tokens {
            tokens: tokens.iter().map(wire::Token::from).collect(),
            next: None,
        },
        || columns(&tokens),
    )
}

fn columns(tokens: &[Token]) -> String {
    let now = Timestamp::now();
    let rows = tokens.iter().map(|token| {
        let grants: Vec<_> = token.grants.iter().map(TokenGrant::to_string).collect();
        let ends = match (token.revoked_at, token.expires_at) {
            (Some(at), _) => format!("revoked {}", table::relative(at, now)),
            (None, Some(at)) => table::relative(at, now),
            (None, None) => table::NOTHING.into(),
        };
        [
            token.name.to_string(),
            grants.join(" "),
            table::relative(token.created_at, now),
            ends,
        ]
    });
    table::rows(["NAME", "GRANTS", "MADE", "EXPIRES"], rows)
}
