//! The verbs, one file each.

mod acquire;
mod create;
mod delete;
mod epoch;
mod goodbye;
mod heartbeat;
mod history;
mod holders;
mod line;
mod list;
mod migrate;
mod page;
mod release;
mod renew;
mod request;
mod resize;
mod run;
mod serve;
mod show;
mod sweep;
mod template;
mod token;
mod verify;

use clap::Subcommand;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Serve(Box<serve::Serve>),
    Create(create::Create),
    Resize(resize::Resize),
    List(list::List),
    Show(show::Show),
    Delete(delete::Delete),
    History(history::History),
    Line(line::Line),
    Run(run::Run),
    Acquire(acquire::Acquire),
    Renew(renew::Renew),
    Release(release::Release),
    Holders(holders::Holders),
    Request(request::RequestVerb),
    Heartbeat(heartbeat::Heartbeat),
    Goodbye(goodbye::Goodbye),
    Template(template::TemplateVerb),
    Token(token::TokenVerb),
    Sweep(sweep::Sweep),
    Verify(verify::Verify),
    Epoch(epoch::EpochVerb),
    Migrate(migrate::Migrate),
}

impl Verb {
    pub(crate) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        match self {
            Verb::Serve(verb) => verb.perform(global).await,
            Verb::Create(verb) => verb.perform(global).await,
            Verb::Resize(verb) => verb.perform(global).await,
            Verb::List(verb) => verb.perform(global).await,
            Verb::Show(verb) => verb.perform(global).await,
            Verb::Delete(verb) => verb.perform(global).await,
            Verb::History(verb) => verb.perform(global).await,
            Verb::Line(verb) => verb.perform(global).await,
            Verb::Run(verb) => verb.perform(global).await,
            Verb::Acquire(verb) => verb.perform(global).await,
            Verb::Renew(verb) => verb.perform(global).await,
            Verb::Release(verb) => verb.perform(global).await,
            Verb::Holders(verb) => verb.perform(global).await,
            Verb::Request(verb) => verb.perform(global).await,
            Verb::Heartbeat(verb) => verb.perform(global).await,
            Verb::Goodbye(verb) => verb.perform(global).await,
            Verb::Template(verb) => verb.perform(global).await,
            Verb::Token(verb) => verb.perform(global).await,
            Verb::Sweep(verb) => verb.perform(global).await,
            Verb::Verify(verb) => verb.perform(global).await,
            Verb::Epoch(verb) => verb.perform(global).await,
            Verb::Migrate(verb) => verb.perform(global).await,
        }
    }
}
