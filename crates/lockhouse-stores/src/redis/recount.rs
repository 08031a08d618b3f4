//! Verification and repair.
//!
//! A recount reads all requests page by page, and then each semaphore with its live requests in one
//! script. So each sum is compared with a counter of the same moment, but two semaphores are read
//! at different moments. A request that was granted and ended in between is not seen, which does no
//! harm: a fence that was not seen is not reported as repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{
    ExternalId, HeldSlots, Recount, Recounted, Request, Semaphore, SemaphoreName, Timestamp,
};
use redis::Script;

use super::Redis;
use super::keys::{Entry, Score};
use super::rows::{self, Loaded, Row};
use super::writes::Writes;

static SCAN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/scan.lua")));
static HELD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/held.lua")));

/// How many rows a recount reads at once.
const PIECE: u32 = 1_000;

/// How many torn requests it names at most.
const TORN: usize = 1_000;

/// How often a repair is tried while the semaphore is in use.
const TRIES: usize = 100;

const CONTEXT: &str = "repairing a semaphore";

/// The fences of a semaphore, from all requests.
#[derive(Default)]
struct Fences {
    of: BTreeMap<u64, ExternalId>,
    repeated: u64,
}

/// A recounted semaphore.
struct Counted {
    row: Row,
    recounted: Recounted,
    /// The entries that are missing in the set by which a refusal finds lapsed requests.
    misfiled: Vec<Entry>,
}

impl Fences {
    /// Adds the fences of `request` on `name`. Returns how many permits it holds there.
    fn add(&mut self, name: &SemaphoreName, request: &Request) -> u64 {
        let id = &request.external_id;
        let mut sum = 0;
        for permit in request.permits.iter().filter(|p| p.semaphore == *name) {
            let first = self.of.entry(permit.fence).or_insert_with(|| id.clone());
            self.repeated += u64::from(first != id);
            sum += u64::from(permit.count.value());
        }
        sum
    }
}

impl Redis {
    pub(super) async fn count_all(&self) -> Result<Recount, Error> {
        let mut fences: BTreeMap<SemaphoreName, Fences> = BTreeMap::new();
        let mut torn = self
            .each_request(|request| {
                for permit in &request.permits {
                    let name = permit.semaphore.clone();
                    fences
                        .entry(name)
                        .or_default()
                        .add(&permit.semaphore, request);
                }
            })
            .await?;
        self.scan("ever", "s", |name, _| {
            if let Ok(name) = SemaphoreName::stored(name) {
                fences.entry(name).or_default();
            }
        })
        .await?;
        let mut semaphores = Vec::new();
        for (name, mut fences) in fences {
            let counted = self.count(&name, &mut fences).await?;
            semaphores.extend(counted.map(|counted| counted.recounted));
        }
        torn.truncate(TORN);
        Ok(Recount { semaphores, torn })
    }

    pub(super) async fn mend(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        let mut fences = Fences::default();
        self.each_request(|request| {
            fences.add(name, request);
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
            writes.set(self.keys.semaphore(name), &is);
            writes.index(&[], &counted.misfiled);
            let read = Loaded {
                keys: vec![self.keys.semaphore(name)],
                values: vec![counted.row],
                ..Loaded::default()
            };
            let latest = Timestamp::MAX;
            if self.save(read, latest, writes, CONTEXT).await? {
                return Ok(Some(was));
            }
        }
        let busy = "the semaphore changed all the while; try again";
        Err(Error::new(Kind::Conflict, busy))
    }

    /// Calls `each` for every request, for some more than once. Returns the ids of requests whose
    /// index entries are wrong.
    async fn each_request(&self, mut each: impl FnMut(&Request)) -> Result<Vec<ExternalId>, Error> {
        let mut torn = BTreeSet::new();
        for set in ["ended", "live"] {
            self.scan(set, "r", |id, row| match rows::parse::<Request>(row) {
                Ok(request) if request.is_live() == (set == "live") => each(&request),
                _ => torn.extend(ExternalId::parse(id)),
            })
            .await?;
        }
        Ok(torn.into_iter().collect())
    }

    /// Calls `each` for every member of a set and its row, for some more than once.
    async fn scan(
        &self,
        set: &str,
        kind: &str,
        mut each: impl FnMut(&str, &Row),
    ) -> Result<(), Error> {
        let mut cursor = "0".to_owned();
        loop {
            let mut script = SCAN.key(self.keys.of(set));
            script.arg(self.keys.each(kind, "")).arg(&cursor).arg(PIECE);
            let found: Vec<(String, Row)>;
            (cursor, found) = self.connections.read(&script).await?;
            found.iter().for_each(|(member, row)| each(member, row));
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// The totals of the live requests of `name`. `None` if it has no row.
    async fn count(
        &self,
        name: &SemaphoreName,
        fences: &mut Fences,
    ) -> Result<Option<Counted>, Error> {
        let expiring = self.keys.each("expiring", name.as_str());
        let mut script = HELD.key(self.keys.semaphore(name));
        script
            .key(self.keys.each("on", name.as_str()))
            .key(&expiring);
        script.arg(self.keys.each("r", ""));
        let (row, held): (Row, Vec<(Row, Option<f64>)>) = self.connections.read(&script).await?;
        if row.is_empty() {
            return Ok(None);
        }
        let (mut live, mut slots, mut misfiled) = (0, HeldSlots::default(), Vec::new());
        for (row, filed_at) in held {
            let request = rows::parse(&row).ok().filter(Request::is_live);
            let Some(request) = request else {
                continue;
            };
            live += fences.add(name, &request);
            let permits = request.permits.iter().filter(|p| p.semaphore == *name);
            permits
                .flat_map(|permit| &permit.slots)
                .for_each(|held| slots.add(held));
            if let Some(at) = request.expires_at
                && filed_at.map(|at| at as i64) != Some(at.as_microsecond())
            {
                misfiled.push(Entry {
                    key: expiring.clone(),
                    score: Score::At(at),
                    member: request.external_id.to_string(),
                });
            }
        }
        let recounted = Recounted {
            semaphore: rows::parse(&row)?,
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
