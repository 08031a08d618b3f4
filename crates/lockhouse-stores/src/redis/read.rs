//! The reads and the listings. Each is one script, so it sees one moment.

use std::time::Duration;

use lockhouse_core::store::{Cursor, Due, Error, Held, Holders, Page, Stale};
use lockhouse_core::{
    CapacityChange, ExternalId, NamePrefix, Owner, Request, Semaphore, SemaphoreName, Timestamp,
};

use super::answer::{self, Found, Rows};
use super::connection::{DUE, FIND, OWNERS};
use super::{Inner, rows};
use crate::lapsed::FEW_SESSIONS;

/// So many requests a page looks at, where it has to look which of them it lists.
const LOOKED_AT: usize = 1_000;

const CONTEXT: &str = "reading";

impl Inner {
    pub(super) async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<Semaphore>, Error> {
        let keys = names.iter().map(|name| self.keys.semaphore(name)).collect();
        let found = self.rows(keys).await?;
        let found = names.iter().zip(&found.values[1..]);
        let mut semaphores = Vec::new();
        for (name, row) in found.filter(|(_, row)| !row.is_empty()) {
            semaphores.push(rows::semaphore(name.clone(), row)?);
        }
        semaphores.retain(Semaphore::exists);
        Ok(semaphores)
    }

    pub(super) async fn request(&self, id: &ExternalId) -> Result<Option<Request>, Error> {
        let found = self.rows(vec![self.keys.request(id)]).await?;
        let row = found.values.last().filter(|row| !row.is_empty());
        row.map(|row| rows::request(id.clone(), row)).transpose()
    }

    pub(super) async fn semaphores(
        &self,
        set: &str,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<Semaphore>, Error> {
        let prefix = prefix.map_or("", NamePrefix::as_str);
        let after = page.after.as_ref().map(SemaphoreName::as_str);
        let from = match after {
            Some(after) if after >= prefix => format!("({after}").into_bytes(),
            _ if prefix.is_empty() => b"-".to_vec(),
            _ => format!("[{prefix}").into_bytes(),
        };
        let to = match prefix {
            "" => b"+".to_vec(),
            // No UTF-8 has this byte.
            _ => [b"(", prefix.as_bytes(), b"\xff"].concat(),
        };
        let limit = page.limit as usize;
        let found = self.by_bytes("s", set, [from, to], limit).await?.rows();
        let semaphores = found.map(|(name, row)| {
            let name = SemaphoreName::stored(name).map_err(|why| rows::unreadable("name", why))?;
            rows::semaphore(name, &row)
        });
        semaphores.collect()
    }

    /// The holders of a semaphore that are also an owner's are looked for among those of the one that has fewer.
    pub(super) async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        let on = of.on.as_ref().map(|name| format!("on:{name}"));
        let owned = of
            .owner
            .as_ref()
            .map(|owner| format!("of:{}", owner.as_str()));
        let (set, looks) = match (on, owned) {
            (None, None) => ("live".to_owned(), false),
            (Some(set), None) | (None, Some(set)) => (set, false),
            (Some(on), Some(owned)) => {
                let fewer = self.cardinality(&on).await? <= self.cardinality(&owned).await?;
                (if fewer { on } else { owned }, true)
            }
        };
        let most = match looks {
            true => LOOKED_AT.max(page.limit as usize),
            false => page.limit as usize,
        };
        let after = page.after.map_or(0, |after| after.row);
        let range = [format!("({after}").into_bytes(), b"+inf".to_vec()];
        let found = self.scored("r", &set, range, most + 1).await?;
        let mut held = Held::default();
        let mut looked_to = after;
        for (i, (id, row)) in found.members.iter().zip(&found.rows).enumerate() {
            let next = Some(Cursor {
                group: 0,
                row: looked_to,
            });
            if i == most {
                held.next = next;
                break;
            }
            let request = self.read_request(id, row)?;
            if request.as_ref().is_some_and(|request| lists(of, request)) {
                if held.requests.len() == page.limit as usize {
                    held.next = next;
                    break;
                }
                held.requests.extend(request);
            }
            looked_to = found.scores[i].unsigned_abs();
        }
        Ok(held)
    }

    pub(super) async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let Some(last) = limit.checked_sub(1) else {
            return Ok(Vec::new());
        };
        let mut command = redis::cmd("ZREVRANGE");
        let key = self.keys.each("history", name.as_str());
        command.arg(key).arg(0).arg(last);
        let found = self.connections.ask(&command, CONTEXT).await?;
        let found = answer::bytes(found)?.into_iter();
        found.map(|row| rows::change(name.clone(), &row)).collect()
    }

    pub(super) async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        let after = page.after.as_ref().map_or("", Owner::as_str);
        let limit = page.limit.to_string();
        let keys = [self.keys.of("owned")];
        let owners = self.read(&OWNERS, &keys, &[after, &limit]).await?;
        let owners = answer::texts(owners)?.into_iter();
        let parsed = owners.map(Owner::stored);
        parsed
            .map(|owner| owner.map_err(|why| rows::unreadable("owner", why)))
            .collect()
    }

    pub(super) async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        match which {
            Due::OwnedBy(owner) => {
                let owner = owner.as_str();
                let range = [format!("[{owner}\0"), format!("({owner}\x01")];
                let range = range.map(String::into_bytes);
                let found = self.by_bytes("r", "owned", range, limit as usize).await?;
                self.requests(found)
            }
            Due::Lapsed { on: None } => self.lapsed(&[], None, self.now().await?, limit).await,
            Due::Lapsed { on: Some([]) } => Ok(Vec::new()),
            Due::Lapsed { on: Some(names) } => {
                let now = self.now().await?;
                let few = self.lapsed_sessions(now).await? <= FEW_SESSIONS as usize;
                let left_out = self.looks.left_out(names, now).filter(|_| !few);
                let found = self.lapsed(names, left_out, now, limit).await?;
                if found.is_empty() && left_out.is_none() {
                    self.looks.found_nothing(names, now);
                }
                Ok(found)
            }
        }
    }

    async fn lapsed(
        &self,
        names: &[SemaphoreName],
        left_out: Option<Timestamp>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Request>, Error> {
        let left_out = left_out.map_or(0, Timestamp::as_microsecond);
        let mut arguments = vec![
            self.keys.prefix().to_owned(),
            now.as_microsecond().to_string(),
            left_out.to_string(),
            limit.to_string(),
        ];
        arguments.extend(names.iter().map(SemaphoreName::to_string));
        let keys = [self.keys.of("sessions")];
        let found = self.read(&DUE, &keys, &arguments).await?;
        self.requests(Found::read(found)?)
    }

    pub(super) async fn stale(
        &self,
        age: Duration,
        page: &Page<Timestamp>,
    ) -> Result<Stale, Error> {
        let Some(last) = (page.limit as usize).checked_sub(1) else {
            return Ok(Stale::default());
        };
        let cutoff = self.now().await?.saturating_sub(age);
        let cutoff = cutoff.unwrap_or(Timestamp::UNIX_EPOCH).as_microsecond();
        let after = page.after.map_or("-inf".to_owned(), |after| {
            format!("({}", after.as_microsecond())
        });
        let range = |from: &str, to: i64| [from.to_owned().into(), to.to_string().into()];
        let found = range(&after, cutoff);
        let mut found = self
            .scored("r", "lasting", found, page.limit as usize)
            .await?;
        let last = found.scores.get(last).copied();
        if let Some(last) = last {
            // All that were made in that moment, however many.
            let all = range(&after, last);
            found = self.scored("r", "lasting", all, usize::MAX >> 1).await?;
        }
        let looked_to = last.map(rows::time).transpose();
        let looked_to = looked_to.map_err(|why| rows::unreadable("time", why))?;
        let mut requests = self.requests(found)?;
        let owners = requests.iter().filter_map(|request| request.owner.clone());
        let owners: Vec<_> = owners.collect();
        let keys = owners.iter().map(|owner| self.keys.session(owner));
        let Rows { at, values, .. } = self.rows(keys.collect()).await?;
        let mut kept = Vec::new();
        for (owner, row) in owners.iter().zip(&values[1..]) {
            if !row.is_empty() && rows::session(owner.clone(), row)?.expires_at > at {
                kept.push(owner);
            }
        }
        requests.retain(|request| request.owner.as_ref().is_none_or(|of| !kept.contains(&of)));
        Ok(Stale {
            requests,
            looked_to,
        })
    }

    /// The server's clock.
    pub(super) async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.rows(Vec::new()).await?.at)
    }

    async fn lapsed_sessions(&self, now: Timestamp) -> Result<usize, Error> {
        let mut command = redis::cmd("ZCOUNT");
        let now = now.as_microsecond();
        command.arg(self.keys.of("sessions")).arg("-inf").arg(now);
        self.size(&command).await
    }

    async fn cardinality(&self, set: &str) -> Result<usize, Error> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.keys.of(set));
        self.size(&command).await
    }

    async fn size(&self, command: &redis::Cmd) -> Result<usize, Error> {
        let answer = self.connections.ask(command, CONTEXT).await?;
        Ok(usize::try_from(answer::number(&answer)?).unwrap_or(0))
    }

    /// At most `limit` members of a set by their bytes, and the row of that kind of each.
    async fn by_bytes(
        &self,
        kind: &str,
        set: &str,
        range: [Vec<u8>; 2],
        limit: usize,
    ) -> Result<Found, Error> {
        self.find(kind, "ZRANGEBYLEX", set, range, limit, &[]).await
    }

    /// The same by their scores, with the scores.
    pub(super) async fn scored(
        &self,
        kind: &str,
        set: &str,
        range: [Vec<u8>; 2],
        limit: usize,
    ) -> Result<Found, Error> {
        let scores = ["WITHSCORES"];
        self.find(kind, "ZRANGEBYSCORE", set, range, limit, &scores)
            .await
    }

    async fn find(
        &self,
        kind: &str,
        command: &str,
        set: &str,
        [from, to]: [Vec<u8>; 2],
        limit: usize,
        more: &[&str],
    ) -> Result<Found, Error> {
        let keys = [self.keys.of(set)];
        let mut arguments = vec![
            self.keys.each(kind, "").into_bytes(),
            command.into(),
            keys[0].clone().into_bytes(),
            from,
            to,
            "LIMIT".into(),
            "0".into(),
            limit.to_string().into_bytes(),
        ];
        arguments.extend(more.iter().map(|word| word.as_bytes().to_vec()));
        let found = self.read(&FIND, &keys, &arguments).await?;
        Found::read(found)
    }

    fn requests(&self, found: Found) -> Result<Vec<Request>, Error> {
        let requests = found
            .rows()
            .filter_map(|(id, row)| self.read_request(&id, &row).transpose());
        requests.collect()
    }

    pub(super) fn read_request(&self, id: &str, row: &[u8]) -> Result<Option<Request>, Error> {
        if row.is_empty() {
            return Ok(None);
        }
        let id = ExternalId::parse(id).map_err(|why| rows::unreadable("id", why))?;
        rows::request(id, row).map(Some)
    }
}

fn lists(of: &Holders, request: &Request) -> bool {
    let holds = |name: &SemaphoreName| request.permits.iter().any(|p| p.semaphore == *name);
    let is_owned = |owner: &Owner| request.owner.as_ref() == Some(owner);
    of.on.as_ref().is_none_or(holds) && of.owner.as_ref().is_none_or(is_owned)
}
