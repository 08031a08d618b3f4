//! Live requests in the order of an index, for pages of listings; see `crate::walk`.
//!
//! Nothing is sorted, so only as many rows as the LIMIT are read. With wrong statistics the server
//! might prefer another index. So the predicate is one that no other index has, and the range
//! compares both columns at once, an order that no other index has.

use lockhouse_core::Owner;

use super::read::with_permits;
use super::sql::Text;
use crate::sql::{Script, list};
use crate::walk::{IndexRange, Stretch};

/// The SELECT of the entries of `stretch`.
pub(super) fn stretch(owner: Option<&Owner>, stretch: &Stretch) -> String {
    let live = match owner {
        Some(owner) => format!("r.state='ACQUIRED' AND r.owner={}", Text(owner.as_str())),
        None => "r.released_at IS NULL".to_owned(),
    };
    let range = match stretch.range {
        IndexRange::In { group, after } => format!(
            "(r.only_semaphore_id,r.id)>({group},{after}) AND (r.only_semaphore_id,r.id)<=({group},{})",
            i64::MAX
        ),
        IndexRange::From { group } => format!("r.only_semaphore_id>={group}"),
    };
    // Not EXISTS: for that the server may read all permits of the semaphore.
    let holds = match stretch.holds {
        Some(id) => format!(
            "(SELECT 1 FROM lockhouse_permit h \
             WHERE h.permit_request_id=r.id AND h.semaphore_id={id} OFFSET 0)"
        ),
        None => "1".to_owned(),
    };
    format!(
        "SELECT r.only_semaphore_id,r.id,{holds} FROM lockhouse_permit_request r \
         WHERE {live} AND {range} ORDER BY r.only_semaphore_id,r.id LIMIT {}",
        stretch.limit
    )
}

/// The live requests among `ids`, with their permits.
pub(super) fn live(ids: &[u64]) -> Script {
    with_permits(&format!(
        "SELECT r.* FROM lockhouse_permit_request r WHERE r.id IN ({}) AND r.state='ACQUIRED'",
        list(ids)
    ))
}
