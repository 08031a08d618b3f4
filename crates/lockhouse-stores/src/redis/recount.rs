//! Verification and repair.
//!
//! A recount reads all requests page by page, and then each semaphore with its live requests, page by
//! page too. If the semaphore's row changes meanwhile, it begins again. So each sum is compared with
//! a counter of the same moment, but two semaphores are read at different moments. A request that
//! was granted and ended in between is not seen, which does no harm: a fence that was not seen is
//! not reported as repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use lockhouse_core::store::Error;
use lockhouse_core::{ExternalId, Recount, Recounted, Request, SemaphoreName, SemaphoreRow};
use redis::Script;

use super::Redis;
use super::keys::SetEntry;
use super::rows::{self, ReadRows, Row};
use super::writes::Writes;

static SCAN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/scan.lua")));
static HELD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/held.lua")));

/// How many rows a recount reads in one script.
const PIECE: u32 = 1_000;

/// How many times the live requests of a semaphore are read in pieces. If its row changed each time,
/// one script reads all of them, which keeps the server from other calls.
const IN_PIECES: u32 = 5;

/// The fences of a semaphore, from all requests.
#[derive(Clone, Default)]
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

/// A semaphore's row; and of each of its live requests, the row and the time under which a refusal
/// finds it.
type Held = (Row, Vec<(Row, Option<f64>)>);

/// A recounted semaphore.
struct Counted {
    row: Row,
    recounted: Recounted,
    /// The entries that are missing in the set by which a refusal finds lapsed requests.
    misfiled: Vec<SetEntry>,
}

impl Redis {
    pub(super) async fn count_all(&self) -> Result<Recount, Error> {
        let (mut fences, mut torn) = self.all_fences().await?;
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
        torn.truncate(Recount::MOST_TORN);
        Ok(Recount { semaphores, torn })
    }

    pub(super) async fn mend(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        let (mut fences, _) = self.all_fences().await?;
        let fences = fences.remove(name).unwrap_or_default();
        self.compare_and_save("repairing a semaphore", || async {
            let mut fences = fences.clone();
            let Some(counted) = self.count(name, &mut fences).await? else {
                return Ok((None, None));
            };
            let is = counted.recounted.repaired();
            let was = counted.recounted.semaphore;
            if is == was && counted.misfiled.is_empty() {
                return Ok((None, None));
            }
            let mut writes = Writes::default();
            writes.set(self.keys.semaphore(name), &is);
            writes.index(&[], &counted.misfiled);
            let read = ReadRows {
                keys: vec![self.keys.semaphore(name)],
                values: vec![counted.row],
                ..ReadRows::default()
            };
            Ok((Some(was), Some((read, writes))))
        })
        .await
    }

    /// The fences of all requests, by semaphore, and the ids of requests that are torn or whose
    /// index entries are wrong.
    async fn all_fences(
        &self,
    ) -> Result<(BTreeMap<SemaphoreName, Fences>, Vec<ExternalId>), Error> {
        let mut fences: BTreeMap<SemaphoreName, Fences> = BTreeMap::new();
        let mut torn = BTreeSet::new();
        for set in ["ended", "live"] {
            self.scan(set, "r", |id, row| match rows::parse::<Request>(row) {
                Ok(request) if request.is_live() == (set == "live") && !request.is_torn() => {
                    for permit in &request.permits {
                        let of = fences.entry(permit.semaphore.clone()).or_default();
                        of.add(permit.fence, &request.external_id);
                    }
                }
                _ => torn.extend(ExternalId::parse(id)),
            })
            .await?;
        }
        Ok((fences, torn.into_iter().collect()))
    }

    /// Calls `each` for every member of a set and its row, and for some of them more than once.
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
        let (row, held) = self.held(name).await?;
        if row.is_empty() {
            return Ok(None);
        }
        let mut recounted = Recounted::without_permits(rows::parse(&row)?);
        let mut misfiled = Vec::new();
        for (row, filed_at) in held {
            let Some(request) = rows::parse(&row).ok().filter(Request::is_live) else {
                continue;
            };
            for permit in request.permits.iter().filter(|p| p.semaphore == *name) {
                recounted.add_live(permit);
                fences.add(permit.fence, &request.external_id);
            }
            if let Some(at) = request.expires_at
                && filed_at.map(|at| at as i64) != Some(at.as_microsecond())
            {
                misfiled.push(self.keys.expiring(name, at, &request.external_id));
            }
        }
        recounted.last_fence = fences.of.keys().next_back().copied().unwrap_or(0);
        recounted.repeated_fences = fences.repeated;
        recounted.misfiled = misfiled.len() as u64;
        Ok(Some(Counted {
            row,
            recounted,
            misfiled,
        }))
    }

    /// Reads a semaphore and its live requests in pieces, as of one moment. If its row changes meanwhile, it begins again.
    async fn held(&self, name: &SemaphoreName) -> Result<Held, Error> {
        let (mut all, mut least, mut changed) = (Held::default(), "-inf".to_owned(), 0);
        loop {
            let limit = if changed < IN_PIECES { PIECE } else { u32::MAX };
            let mut script = HELD.key(self.keys.semaphore(name));
            script.key(self.keys.each("on", name.as_str()));
            script.key(self.keys.each("expiring", name.as_str()));
            script.arg(self.keys.each("r", "")).arg(&least).arg(limit);
            let (row, held, last): (Row, Vec<_>, Option<String>) =
                self.connections.read(&script).await?;
            if least != "-inf" && row != all.0 {
                (all, least, changed) = (Held::default(), "-inf".to_owned(), changed + 1);
                continue;
            }
            let is_last = held.len() < limit as usize;
            all.0 = row;
            all.1.extend(held);
            match last {
                Some(last) if !is_last => least = format!("({last}"),
                _ => return Ok(all),
            }
        }
    }
}
