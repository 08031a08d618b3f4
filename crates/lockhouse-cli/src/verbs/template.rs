//! `lockhouse template`.

use clap::{Args, Subcommand};
use lockhouse::{Lockhouse, Template};
use lockhouse_wire as wire;
use serde::Serialize;

use super::page::PAGE;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::table;

/// Create semaphores on first use, by a rule
///
/// A pattern is a prefix and `*`. Every name that it matches has a semaphore of the template's capacity, which the
/// first request that is granted on it creates. Of several patterns that match, the one with the
/// longest prefix counts. A waiter for a semaphore of a template holds up no other waiter on its
/// other semaphores.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse template set 'customer/*' 2
  lockhouse template set 'customer/*' 2 --idle 1d
  lockhouse template list
  lockhouse template delete 'customer/*'
  lockhouse run -s customer/acme -s all -- ./job.sh")]
pub(crate) struct TemplateVerb {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Set(Set),
    List(List),
    Delete(Delete),
}

/// Create a template, or change one
///
/// Its semaphores get the new capacity, except those that were resized by hand.
#[derive(Args, Debug)]
struct Set {
    /// The names that it is for: a prefix and *, in quotes
    pattern: String,
    /// How many permits each of its semaphores has; 0 closes them
    #[arg(allow_negative_numbers = true)]
    capacity: i64,
    /// Delete a semaphore that nobody has used for this long
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = humantime::parse_duration)]
    idle: std::time::Duration,
}

/// List templates
#[derive(Args, Debug)]
struct List {}

/// Delete a template, and leave its semaphores
#[derive(Args, Debug)]
struct Delete {
    /// The template's pattern, in quotes
    pattern: String,
}

#[derive(Serialize)]
struct Created {
    created: bool,
    #[serde(flatten)]
    template: wire::Template,
}

impl TemplateVerb {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let target = global.target()?;
        match self.task {
            Task::Set(set) => set.perform(&target.connect().await?, global).await,
            Task::List(List {}) => {
                let lockhouse = target.connect_to_read(global.output).await?;
                list(&lockhouse, global).await
            }
            Task::Delete(delete) => delete.perform(&target.connect().await?, global).await,
        }
    }
}

impl Set {
    async fn perform(self, lockhouse: &Lockhouse, global: &Global) -> Result<Exit, Failure> {
        let define = lockhouse.template(&self.pattern, self.capacity);
        let (template, created) = define.idle(self.idle).send().await?;
        global.output.print(
            || Created {
                created,
                template: wire::Template::from(&template),
            },
            || {
                let (pattern, capacity) = (&template.pattern, template.capacity);
                let did = if created { "created" } else { "set" };
                format!("template \"{pattern}\" {did}: capacity {capacity}")
            },
        )?;
        Ok(Exit::OK)
    }
}

impl Delete {
    async fn perform(self, lockhouse: &Lockhouse, global: &Global) -> Result<Exit, Failure> {
        if !lockhouse.delete_template(&self.pattern).await? {
            let problem = format!(
                "template \"{}\" does not exist; see `lockhouse template list`",
                self.pattern
            );
            return Err(Failure::other(problem));
        }
        let said = || format!("template \"{}\" deleted, its semaphores stay", self.pattern);
        global.output.say(said)?;
        Ok(Exit::OK)
    }
}

async fn list(lockhouse: &Lockhouse, global: &Global) -> Result<Exit, Failure> {
    let mut all: Vec<Template> = Vec::new();
    loop {
        let after = all.last().map(|template| &template.pattern);
        let page = lockhouse.templates(after, PAGE).await?;
        let more = page.len() == PAGE as usize;
        all.extend(page);
        if !more {
            break;
        }
    }
    global.output.print(
        || wire::Templates {
            templates: all.iter().map(wire::Template::from).collect(),
            next: None,
        },
        || columns(&all),
    )?;
    Ok(Exit::OK)
}

fn columns(all: &[Template]) -> String {
    let rows = all.iter().map(|template| {
        [
            template.pattern.to_string(),
            template.capacity.to_string(),
            humantime::format_duration(template.idle.as_duration()).to_string(),
        ]
    });
    table::rows(["PATTERN", "CAPACITY", "IDLE"], rows)
}
