//! The listings. Each page is one script, so it sees one moment.

use async_trait::async_trait;
use lockhouse_core::store::{Cursor, Error, Held, Holders, Listing, Page};
use lockhouse_core::{CapacityChange, NamePrefix, Request, SemaphoreName, SemaphoreRow};

use super::Redis;
use super::rows::{self, SetRange};

/// How many requests a page reads at most when it has to filter them.
const LOOKED_AT: usize = 1_000;

const CONTEXT: &str = "listing";

#[async_trait]
impl Listing for Redis {
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let prefix = prefix.map_or("", NamePrefix::as_str);
        self.walk("names", prefix, page).await
    }

    async fn semaphores_ever(
        &self,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        self.walk("ever", "", page).await
    }

    /// For a semaphore and an owner, the listing walks over the smaller of the two sets.
    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        let limit = page.limit as usize;
        let on = of.on.as_ref().map(|name| format!("on:{name}"));
        let owned = of
            .owner
            .as_ref()
            .map(|owner| format!("of:{}", owner.as_str()));
        let (set, most) = match (on, owned) {
            (None, None) => ("live".to_owned(), limit),
            (Some(set), None) | (None, Some(set)) => (set, limit),
            (Some(on), Some(owned)) => {
                let is_fewer = self.size(&on).await? <= self.size(&owned).await?;
                (if is_fewer { on } else { owned }, limit.max(LOOKED_AT))
            }
        };
        let mut looked_to = page.after.map_or(0, |after| after.row);
        let range = SetRange::of_scores(format!("({looked_to}"), "+inf");
        let mut held = Held::default();
        // One row more, to see whether another page follows.
        let (numbers, found) = self.find("r", &set, &range, most + 1).await?;
        for (i, (number, row)) in numbers.into_iter().zip(found).enumerate() {
            let request: Option<Request> = rows::all([row])?.pop();
            let request = request.filter(|request| of.include(request));
            if i == most || (request.is_some() && held.requests.len() == limit) {
                held.next = Some(Cursor {
                    group: 0,
                    row: looked_to,
                });
                break;
            }
            held.requests.extend(request);
            looked_to = number as u64;
        }
        Ok(held)
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let mut command = redis::cmd("ZRANGE");
        let key = self.keys.each("history", name.as_str());
        command.arg(key).arg("+inf").arg("-inf");
        command.arg("BYSCORE").arg("REV");
        command.arg("LIMIT").arg(0).arg(limit);
        let found: Vec<String> = self.connections.ask(&command, CONTEXT).await?;
        let rows = found.iter().filter_map(|member| member.split_once(' '));
        rows.map(|(_, row)| rows::parse(row.as_bytes())).collect()
    }
}

impl Redis {
    /// A page of the semaphores in a set whose names begin with `prefix`.
    async fn walk(
        &self,
        set: &str,
        prefix: &str,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let from = match &page.after {
            Some(after) if after.as_str() >= prefix => format!("({after}"),
            _ => format!("[{prefix}"),
        };
        // No UTF-8 has this byte.
        let to = [b"(", prefix.as_bytes(), b"\xff"].concat();
        let range = SetRange::of_bytes(from, to);
        let (_, found) = self.find("s", set, &range, page.limit as usize).await?;
        rows::all(found)
    }

    async fn size(&self, set: &str) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.keys.of(set));
        self.connections.ask(&command, CONTEXT).await
    }
}
