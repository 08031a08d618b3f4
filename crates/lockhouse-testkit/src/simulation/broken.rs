//! Stores that are broken on purpose. The checks of the simulation must find each break.

mod breaks;
mod keys;
pub(super) mod line;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lockhouse::store::{
    Batch, Cause, Command, Definition, Due, Error, FullStore, Layer, Outcome, Reply,
};
use lockhouse::{Ask, Capacity, ExternalId, Refusal, Request, SemaphoreName, Template};
use lockhouse_core::{ProcessId, Saved, SemaphoreRow, Stand};

use crate::broken::{Sabotage, variants};
pub use breaks::Break;

impl Break {
    /// The changes of the rows, if the rows are broken.
    pub(super) fn sabotage(self) -> Option<Arc<Sabotage>> {
        let name = match self {
            Break::CountsNothingBack => "release that decrements nothing",
            Break::RenewsExpired => "renew after expiry",
            Break::SavesNothing => "answers, and does not save",
            Break::SharesSlots => "slots that are held are handed out",
            Break::MovesSlotsUp => "slots begin at the capacity",
            Break::CreatesForRefused => "a refused ask creates its semaphore",
            Break::RestartsFences => "fences restart when a template creates a name again",
            Break::OverridesResize => "a template overrides a resize by hand",
            Break::DeletesHeld => "a semaphore is deleted as unused while it is held",
            Break::ForgetsPurged => return Some(keys::forgetting_epochs()),
            Break::TakesHighestSlots => return Some(keys::taking_highest_slots()),
            _ => return None,
        };
        let mut variants = variants();
        let variant = variants.find(|variant| variant.name == name);
        Some((variant.expect("there is one of that name").sabotage)())
    }
}

/// Rows in memory, behind a broken layer.
#[derive(Debug)]
pub(super) struct Breaking {
    rows: Arc<dyn FullStore>,
    breaks: Option<Break>,
    count: AtomicU32,
    fences: Mutex<BTreeMap<SemaphoreName, u64>>,
}

/// The id of no process of a run.
const NOBODY: ProcessId = ProcessId::new(1);

/// "Now and then" is once in so many times.
const EVERY: u32 = 4;

impl Breaking {
    pub(super) fn new(rows: Arc<dyn FullStore>, breaks: Option<Break>) -> Self {
        Self {
            rows,
            breaks,
            count: AtomicU32::new(0),
            fences: Mutex::default(),
        }
    }

    fn is(&self, breaks: Break) -> bool {
        self.breaks == Some(breaks)
    }

    /// Whether the break applies this time.
    fn now_and_then(&self) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// The batch that goes to the rows, instead of `batch`.
    async fn sent(&self, batch: &Batch) -> Result<Batch, Error> {
        let mut sent = batch.clone();
        for command in &mut sent.commands {
            if let Some(breaks) = self.breaks {
                line::distort(breaks, command);
            }
            match command {
                Command::Acquire { ask, .. }
                    if self.is(Break::GrantsHalf)
                        && ask.permits().len() > 1
                        && self.now_and_then() =>
                {
                    *ask = half(ask);
                }
                Command::Acquire { turn, .. } if self.is(Break::ForgetsTurns) => {
                    turn.place = lockhouse_core::PlaceInLine::default();
                    turn.behind.clear();
                }
                Command::End {
                    external_id,
                    cause: Cause::Released { .. },
                } if self.is(Break::LosesRelease) => {
                    let request = self.rows.request(external_id).await?;
                    if request.is_some_and(|r| r.is_live()) && self.now_and_then() {
                        // This command does nothing, and returns the request.
                        let id = external_id.clone();
                        *command = end(id, Cause::Expired);
                    }
                }
                _ => {}
            }
        }
        Ok(sent)
    }

    /// Claims that the processes in the lines have no waiters, or that free permits cannot be used.
    async fn speak_for_others(&self, batch: &Batch) -> Result<(), Error> {
        let names: Vec<_> = batch.footprint.semaphores.iter().cloned().collect();
        let mut said = Vec::new();
        for row in self.rows.named(&names).await? {
            let processes = row.line.entries().iter().map(|entry| entry.process);
            let (all, saved) = match self.is(Break::PassesAllOver) {
                true => (processes.collect(), Saved::Always),
                // The entry belongs to no process of the run.
                false => (
                    processes.take(1).map(|_| NOBODY).collect::<Vec<_>>(),
                    Saved::Excused,
                ),
            };
            said.extend(all.into_iter().map(|process| Command::Stand {
                name: row.name.clone(),
                stand: Stand {
                    process,
                    standing: None,
                    saved,
                },
            }));
        }
        if !said.is_empty() {
            self.rows.transact(&Batch::new(said)).await?;
        }
        Ok(())
    }

    /// Makes room for an ask that finds none, by a capacity that no answer reports.
    async fn squeeze_in(&self, batch: &Batch) -> Result<Option<Vec<Outcome>>, Error> {
        let [command] = &batch.commands[..] else {
            return Ok(None);
        };
        let Some(ask) = command.ask().filter(|ask| ask.permits().len() == 1) else {
            return Ok(None);
        };
        let (name, count) = ask.permits().next().expect("it has one");
        let Some(row) = self.rows.semaphore(name).await? else {
            return Ok(None);
        };
        let lacks = row.available() < count.value() && row.capacity.value() >= count.value();
        if !lacks || !self.now_and_then() {
            return Ok(None);
        }
        let larger = Capacity::new(row.in_use + count.value()).expect("it is small");
        let define = |capacity| Command::Define(Definition::new(name.clone(), capacity));
        self.rows
            .transact(&Batch::new(vec![define(larger)]))
            .await?;
        let outcomes = self.rows.transact(batch).await?;
        self.rows
            .transact(&Batch::new(vec![define(row.capacity)]))
            .await?;
        Ok(Some(outcomes))
    }

    /// The answer to `command` instead of `outcome`.
    async fn told(&self, command: &Command, outcome: Outcome) -> Result<Outcome, Error> {
        Ok(match outcome {
            Ok(Reply::Ended {
                request,
                now: false,
                decided_at,
            }) => {
                let ended = !request.is_live();
                let lies = match self.breaks {
                    Some(Break::EndsTwice) => ended && self.now_and_then(),
                    Some(Break::LosesRelease) => !ended,
                    _ => false,
                };
                Ok(Reply::Ended {
                    request,
                    now: lies,
                    decided_at,
                })
            }
            Ok(Reply::Granted {
                mut request,
                now: true,
                lasts,
            }) => {
                if self.is(Break::RepeatsFence) {
                    self.repeat_fence(&mut request);
                }
                let lasts = lasts.filter(|_| !self.is(Break::LastsForEver));
                Ok(Reply::Granted {
                    request,
                    now: true,
                    lasts,
                })
            }
            Err(Refusal::RequestEnded { external_id, .. })
                if self.is(Break::GrantsAgain) && command.ask().is_some() =>
            {
                let request = self.rows.request(&external_id).await?;
                let request = request.expect("it has ended");
                Ok(Reply::Granted {
                    request,
                    now: true,
                    lasts: None,
                })
            }
            other => other,
        })
    }

    fn repeat_fence(&self, request: &mut Request) {
        let mut fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        for permit in &mut request.permits {
            let last = fences.insert(permit.semaphore.clone(), permit.fence);
            if let Some(last) = last.filter(|_| self.now_and_then()) {
                permit.fence = last;
            }
        }
    }
}

fn half(ask: &Ask) -> Ask {
    let first = ask
        .permits()
        .next()
        .map(|(name, count)| (name.clone(), count));
    let mut half = Ask::new(ask.external_id.clone(), first).expect("it names one");
    half.owner.clone_from(&ask.owner);
    half.ttl = ask.ttl;
    half
}

fn end(external_id: ExternalId, cause: Cause) -> Command {
    Command::End { external_id, cause }
}

impl Layer for Breaking {
    fn inner(&self) -> &dyn FullStore {
        &*self.rows
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        if self.breaks.is_none() {
            return self.rows.transact(batch).await;
        }
        if self.is(Break::GrantsOneTooMany)
            && let Some(outcomes) = self.squeeze_in(batch).await?
        {
            return Ok(outcomes);
        }
        if self.is(Break::PassesNobodyOver)
            || self.is(Break::PassesAllOver) && batch.commands.iter().any(|c| c.ask().is_some())
        {
            self.speak_for_others(batch).await?;
        }
        let sent = self.sent(batch).await?;
        let mut told = Vec::new();
        let outcomes = self.rows.transact(&sent).await?;
        for (command, mut outcome) in batch.commands.iter().zip(outcomes) {
            if let Some(breaks) = self.breaks {
                line::hide_line(breaks, command, &mut outcome);
            }
            told.push(self.told(command, outcome).await?);
        }
        Ok(told)
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, Error> {
        let mut rows = self.rows.named(names).await?;
        if let Some(breaks) = self.breaks {
            rows = rows
                .into_iter()
                .map(|row| line::seen(breaks, row))
                .collect();
        }
        Ok(rows)
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        if self.is(Break::KeepsUnused) {
            return Ok(Vec::new());
        }
        self.rows.to_follow(template, limit).await
    }

    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        if self.is(Break::FindsNoLapsed) && matches!(which, Due::Lapsed { .. }) {
            return Ok(Vec::new());
        }
        self.rows.due(which, limit).await
    }
}
