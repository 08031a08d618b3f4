//! `lockhouse acquire`.

use std::time::Duration;

use clap::Args;
use lockhouse::{Lockhouse, Request};
use lockhouse_wire as wire;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::hold::{ENDING, Signals, Waiter, or_signal};
use crate::want::{Wanted, patience};
use crate::{notice, table};

/// Acquire permits, all or none, and leave them held
///
/// Prints the request, one line for each permit: its id, by which to renew or release it, and the fence on each
/// semaphore. If the output cannot be written, permits with a generated id are released. Nothing renews the
/// request. Without --ttl it is held until it is released. Asking again with the same id and the same permits
/// returns the same grant.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse acquire -s backup-slots --ttl 5m
  lockhouse acquire -s backup-slots -s network=2 --wait 30s --id job-abc-123
  id=$(lockhouse acquire -s backup-slots -o json | jq -r .external_id)")]
pub(crate) struct Acquire {
    #[command(flatten)]
    wanted: Wanted,
    /// How long to wait for room at most: 30s, 5m, 1h30m or forever
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        value_parser = patience
    )]
    wait: Duration,
    /// How long the request is held unless renewed: 30s, 5m, 1h30m; by default until it is released
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,
}

impl Acquire {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let mut signals = Signals::listen(ENDING)?;
        let ask = self.wanted.ask(self.ttl)?;
        let lockhouse = or_signal(global.target()?.connect(), &mut signals).await?;
        let waiter = Waiter {
            lockhouse: &lockhouse,
            ask: &ask,
            fresh_id: self.wanted.id.is_none(),
            own_owner: false,
        };
        let acquiring = lockhouse.acquire(ask.clone(), self.wait);
        let acquiring = notice::while_waiting(acquiring, &lockhouse, &ask, global.output);
        let (request, _) = waiter.until_granted(acquiring, &mut signals).await?;
        let told = global.output.deliver(
            || wire::Request::from(&request),
            || table::requests([&request]),
        );
        if let Err(failure) = told {
            let then = self.unheard(&lockhouse, &request).await;
            return Err(Failure::other(format!("{failure}; {then}")));
        }
        Ok(Exit::OK)
    }

    /// Handles a grant whose output could not be written: releases `request` if its id was
    /// generated. Returns what happened to it.
    async fn unheard(&self, lockhouse: &Lockhouse, request: &Request) -> String {
        let id = &request.external_id;
        if self.wanted.id.is_some() {
            return format!("request \"{id}\" is held");
        }
        match lockhouse.release(id).await {
            Ok(_) => "the permits were released".into(),
            Err(error) => format!("request \"{id}\" may be held: {error}"),
        }
    }
}
