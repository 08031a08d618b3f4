//! Deleting what is past, and counting anew.
//!
//! A recount reads all requests piece by piece, and then each semaphore with its live requests in one script. So the sums and
//! counters that are compared are of one moment, though those of two semaphores are not. What was granted and ended in between is
//! not seen, and does no harm: a fence that was not seen is not repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use lockhouse_core::store::{Error, Kind, Page, Purge};
use lockhouse_core::{
    ExternalId, HeldSlots, Recount, Recounted, Request, Semaphore, SemaphoreName,
};
use redis::Value;

use super::answer;
use super::connection::{CHECK, HELD, PURGE, SAVE};
use super::keys::{Entry, Score};
use super::transaction::Writes;
use super::{Inner, rows};

/// So many names a recount reads at once.
const PIECE: u32 = 1_000;

/// So many torn requests are named.
const TORN: usize = 1_000;

/// So often a repair is tried while the semaphore is in use.
const TRIES: usize = 100;

const CONTEXT: &str = "counting anew";

/// The fences of a semaphore, from all requests.
#[derive(Default)]
struct Fences {
    of: BTreeMap<u64, ExternalId>,
    repeated: u64,
}

impl Fences {
    fn add(&mut self, fence: u64, id: &ExternalId) {
        let first = self.of.entry(fence).or_insert_with(|| id.clone());
        self.repeated += u64::from(first != id);
    }
}

impl Inner {
    pub(super) async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        let (kind, age) = match what {
            Purge::Requests { age } => ("requests", age),
            Purge::CapacityChanges { age } => ("changes", age),
            Purge::Sessions { age } => ("sessions", age),
            // Their rows are kept.
            Purge::Semaphores { .. } => return Ok(0),
        };
        self.delete(kind, age, limit).await
    }

    pub(super) async fn delete(
        &self,
        kind: &str,
        age: std::time::Duration,
        limit: u32,
    ) -> Result<u64, Error> {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let arguments = [
            self.keys.prefix(),
            kind,
            &age.to_string(),
            &limit.to_string(),
        ];
        let keys = [self.keys.of(kind)];
        let context = "deleting what is past";
        let gone = self.write(&PURGE, &keys, &arguments, context).await?;
        Ok(answer::number(&gone)?.unsigned_abs())
    }

    pub(super) async fn recount(&self) -> Result<Recount, Error> {
        let mut fences: BTreeMap<SemaphoreName, Fences> = BTreeMap::new();
        let mut torn = BTreeSet::new();
        self.each_request(&mut torn, |request| {
            for permit in &request.permits {
                let of = fences.entry(permit.semaphore.clone()).or_default();
                of.add(permit.fence, &request.external_id);
            }
        })
        .await?;
        let mut semaphores = Vec::new();
        let mut after = None;
        loop {
            let page = Page {
                after: after.take(),
                limit: PIECE,
            };
            let names = self.semaphores("ever", None, &page).await?;
            for semaphore in &names {
                let mut fences = fences.remove(&semaphore.name).unwrap_or_default();
                let counted = self.count(&semaphore.name, &mut fences).await?;
                semaphores.extend(counted.map(|counted| counted.recounted));
            }
            match names.into_iter().nth(PIECE as usize - 1) {
                Some(last) => after = Some(last.name),
                None => break,
            }
        }
        let torn = torn.into_iter().take(TORN).collect();
        Ok(Recount { semaphores, torn })
    }

    pub(super) async fn repair(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        let mut fences = Fences::default();
        self.each_request(&mut BTreeSet::new(), |request| {
            let permits = request.permits.iter();
            for permit in permits.filter(|permit| permit.semaphore == *name) {
                fences.add(permit.fence, &request.external_id);
            }
        })
        .await?;
        for _ in 0..TRIES {
            let Some(counted) = self.count(name, &mut fences).await? else {
                return Ok(None);
            };
            let recounted = counted.recounted;
            let was = recounted.semaphore;
            let is = Semaphore {
                in_use: u32::try_from(recounted.live).unwrap_or(u32::MAX),
                fence: was.fence.max(recounted.last_fence),
                slots: was.slots.as_ref().map(|_| recounted.slots.held),
                ..was.clone()
            };
            if is == was && counted.misfiled.is_empty() {
                return Ok(None);
            }
            let mut writes = Writes::default();
            let key = self.keys.semaphore(name);
            writes.add(["SET", &key, &rows::of_semaphore(&is)]);
            for entry in &counted.misfiled {
                writes.index(&[], slice::from_ref(entry));
            }
            let late = i64::MAX.to_string().into_bytes();
            let mut arguments = vec![late, Vec::new(), b"0".to_vec(), counted.row];
            arguments.extend(writes.words.into_iter().map(String::into_bytes));
            let saved = self.write(&SAVE, &[key], &arguments, CONTEXT).await?;
            if answer::text(&saved)? == "DONE" {
                return Ok(Some(was));
            }
        }
        let busy = "the semaphore changed all the while; try again";
        Err(Error::new(Kind::Conflict, busy))
    }

    /// Calls `each` for every request, more than once for some, and notes those that the indexes are wrong about.
    async fn each_request(
        &self,
        torn: &mut BTreeSet<ExternalId>,
        mut each: impl FnMut(&Request),
    ) -> Result<(), Error> {
        for set in ["ended", "live"] {
            let key = self.keys.of(set);
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = redis::cmd("ZSCAN");
                scan.arg(&key).arg(&cursor).arg("COUNT").arg(PIECE);
                let [next, found] = answer::parts(self.connections.ask(&scan, CONTEXT).await?)?;
                // Each is followed by its score.
                let ids = answer::texts(found)?.into_iter().step_by(2);
                let ids: Vec<_> = ids.collect();
                let mut arguments = vec![self.keys.each("r", "")];
                arguments.extend(ids.iter().cloned());
                let keys = [key.clone()];
                let checked = self.read(&CHECK, &keys, &arguments).await?;
                let checked = answer::bytes(checked)?;
                for (id, row) in ids.iter().zip(checked) {
                    match self.read_request(id, &row) {
                        Ok(Some(request)) if request.is_live() == (set == "live") => each(&request),
                        Ok(None) => {}
                        Ok(Some(_)) | Err(_) => torn.extend(ExternalId::parse(id)),
                    }
                }
                cursor = answer::text(&next)?.to_owned();
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What the live requests of `name` come to; none if there is no row of it.
    async fn count(
        &self,
        name: &SemaphoreName,
        fences: &mut Fences,
    ) -> Result<Option<Counted>, Error> {
        let expiring = self.keys.each("expiring", name.as_str());
        let on = self.keys.each("on", name.as_str());
        let keys = [self.keys.semaphore(name), on, expiring.clone()];
        let of_rows = [self.keys.each("r", "")];
        let held = self.read(&HELD, &keys, &of_rows).await?;
        let [row, ids, held, scores] = answer::parts(held)?;
        let Value::BulkString(row) = row else {
            return Ok(None);
        };
        let semaphore = rows::semaphore(name.clone(), &row)?;
        let (mut live, mut slots, mut misfiled) = (0, HeldSlots::default(), Vec::new());
        let held = answer::bytes(held)?.into_iter().zip(answer::array(scores)?);
        for (id, (row, score)) in answer::texts(ids)?.into_iter().zip(held) {
            let request = self.read_request(&id, &row).ok().flatten();
            let Some(request) = request.filter(Request::is_live) else {
                continue;
            };
            let permits = request.permits.iter();
            for permit in permits.filter(|permit| permit.semaphore == *name) {
                live += u64::from(permit.count.value());
                permit.slots.iter().for_each(|held| slots.add(held));
                fences.add(permit.fence, &request.external_id);
            }
            let filed_at = answer::number(&score).ok();
            if let Some(at) = request.expires_at
                && filed_at != Some(at.as_microsecond())
            {
                misfiled.push(Entry {
                    key: expiring.clone(),
                    score: Score::At(at),
                    member: id,
                });
            }
        }
        let recounted = Recounted {
            semaphore,
            live,
            last_fence: fences.of.keys().next_back().copied().unwrap_or(0),
            repeated_fences: fences.repeated,
            misfiled: misfiled.len() as u64,
            slots,
        };
        Ok(Some(Counted {
            row,
            recounted,
            misfiled,
        }))
    }
}

/// A semaphore, counted anew.
struct Counted {
    row: Vec<u8>,
    recounted: Recounted,
    /// What the set by which a refusal finds its requests lacks.
    misfiled: Vec<Entry>,
}
