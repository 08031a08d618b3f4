//! `GET /v1/requests`: the live requests.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use lockhouse::access::Verb;
use lockhouse::{Code, Cursor, Error, Lockhouse, Owner, Request, SemaphoreName};
use lockhouse_wire::{self as wire, Requests};
use sha2::{Digest, Sha256};

use crate::access::{Access, Principal};
use crate::body::Json;
use crate::failure::Failure;
use crate::paging::Paging;
use crate::query::parameters;

/// About how long a page of a listing may be.
const MOST_BYTES: usize = 1024 * 1024;

/// How many requests of a page are read first, to estimate their size.
const FIRST_PART: usize = 32;

/// `?owner=…&semaphore=…&cursor=…&limit=…`: which live requests are listed.
pub(crate) struct ListedRequests {
    owner: Option<Owner>,
    on: Option<SemaphoreName>,
    paging: Paging<At>,
}

/// Where a page begins. If several tokens have owners of one name, their requests follow each other,
/// and this also has the rank of the owner whose requests come next.
#[derive(Debug, Default)]
pub(crate) struct At {
    owner: Option<Rank>,
    cursor: Option<Cursor>,
}

/// An owner's place among others. It does not show whose it is: a caller may not know of a token
/// whose requests it may not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u128);

impl Rank {
    fn of(owner: &Owner) -> Self {
        let digest = Sha256::digest(owner.as_str());
        // As much of it as fits into the number.
        Self(
            digest
                .iter()
                .fold(0, |rank, byte| rank << 8 | u128::from(*byte)),
        )
    }
}

impl std::str::FromStr for At {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (owner, cursor) = match text.split_once('\n') {
            Some((owner, cursor)) => (Some(owner), cursor),
            None => (None, text),
        };
        let rank = |text| u128::from_str_radix(text, 16).map(Rank).map_err(drop);
        let is_begin = owner.is_some() && cursor.is_empty();
        let cursor = (!is_begin).then(|| cursor.parse().map_err(drop));
        Ok(Self {
            owner: owner.map(rank).transpose()?,
            cursor: cursor.transpose()?,
        })
    }
}

impl At {
    fn text(&self) -> String {
        let cursor = self.cursor.map(|cursor| cursor.to_string());
        let cursor = cursor.unwrap_or_default();
        let text = match self.owner {
            Some(Rank(rank)) => format!("{rank:x}\n{cursor}"),
            None => cursor,
        };
        wire::cursor(&text)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ListedRequests {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let names = ["owner", "semaphore", "cursor", "limit"];
        let [owner, on, cursor, limit] = parameters(&parts.uri, names)?;
        Ok(Self {
            owner: owner.map(Owner::parse).transpose()?,
            on: on.map(SemaphoreName::parse).transpose()?,
            paging: Paging::of(cursor, limit)?,
        })
    }
}

pub(crate) async fn list(
    State(lockhouse): State<Lockhouse>,
    State(access): State<Arc<Access>>,
    principal: Principal,
    ListedRequests { owner, on, paging }: ListedRequests,
) -> Result<Json<Requests>, Failure> {
    let Paging { after, limit } = paging;
    let At {
        owner: began_with,
        cursor: mut after,
    } = after.unwrap_or_default();
    let owners = match &owner {
        None => vec![None],
        Some(owner) => {
            let mut owners = access.owners_called(&lockhouse, &principal, owner).await?;
            owners.sort_by_cached_key(Rank::of);
            owners.into_iter().map(Some).collect()
        }
    };
    // Only a caller that may read the semaphore learns whether it exists.
    let is_hidden = on
        .as_ref()
        .is_some_and(|name| !principal.may(Verb::Read, name.as_str()));
    let are_several = owners.len() > 1;
    let mut owners = owners.into_iter().peekable();
    while owners
        .next_if(|owner| owner.as_ref().map(Rank::of) < began_with)
        .is_some()
    {}
    let mut requests = Vec::new();
    while let Some(owner) = owners.next() {
        let rest = Paging {
            after: after.take(),
            limit: limit - u32::try_from(requests.len()).unwrap_or(limit),
        };
        let part = page(&lockhouse, &principal, owner.as_ref(), on.as_ref(), &rest).await;
        let (part, next) = match part {
            Err(error) if is_hidden && error.code() == Code::UnknownSemaphore => (Vec::new(), None),
            part => part?,
        };
        requests.extend(part);
        let is_full = requests.len() >= limit as usize;
        let at = match (next, owners.peek()) {
            (Some(next), _) => At {
                owner: owner.as_ref().filter(|_| are_several).map(Rank::of),
                cursor: Some(next),
            },
            (None, Some(following)) if is_full => At {
                owner: following.as_ref().map(Rank::of),
                cursor: None,
            },
            (None, _) => continue,
        };
        let next = Some(at.text());
        return Ok(Json(Requests { requests, next }));
    }
    let next = None;
    Ok(Json(Requests { requests, next }))
}

/// A page of the live requests of `owner`, or of all owners, that hold permits of `on`, or of any
/// semaphore, as far as `principal` may see them; and where the next begins.
///
/// The page is shorter than the limit if it would be too large. It is read in parts, beginning with
/// a small one, so that little more is read than is sent.
pub(crate) async fn page(
    lockhouse: &Lockhouse,
    principal: &Principal,
    owner: Option<&Owner>,
    on: Option<&SemaphoreName>,
    paging: &Paging<Cursor>,
) -> Result<(Vec<wire::Request>, Option<Cursor>), Error> {
    let held = async |after, limit| match owner {
        Some(owner) => lockhouse.held_by(owner, on, after, limit).await,
        None => lockhouse.holders(on, after, limit).await,
    };
    let mut page: Vec<wire::Request> = Vec::new();
    let (mut bytes, mut read, mut after) = (0, 0, paging.after);
    while bytes < MOST_BYTES && !paging.is_full(read) {
        let left = paging.limit as usize - read;
        let fit = match read {
            0 => FIRST_PART,
            read => (MOST_BYTES - bytes).div_ceil(bytes / read),
        };
        let many = fit.min(left);
        let part = held(after, u32::try_from(many).unwrap_or(u32::MAX)).await?;
        let found = part.requests.len();
        bytes += part.requests.iter().map(size).sum::<usize>();
        read += found;
        // A filter by a semaphore that the caller may not read would tell who holds it.
        let matches = |request: &Request| {
            let mut permits = request.permits.iter();
            on.is_none_or(|name| permits.any(|permit| permit.semaphore == *name))
        };
        let seen = part
            .requests
            .into_iter()
            .filter_map(|request| principal.seen(request))
            .filter(matches);
        page.extend(seen.map(|request| wire::Request::from(&request)));
        after = part.next;
        // A short part means that the read took long.
        if after.is_none() || found < many {
            break;
        }
    }
    Ok((page, after))
}

/// About how long `request` is as JSON.
fn size(request: &Request) -> usize {
    let texts = [&request.owner, &request.ended_by];
    let texts = texts.into_iter().flatten();
    let permits = request.permits.iter();
    let permits = permits.map(|permit| 64 + permit.semaphore.as_str().len());
    256 + request.external_id.as_str().len()
        + texts.map(|text| text.as_str().len()).sum::<usize>()
        + permits.sum::<usize>()
}
