//! Live requests in the order of an index, for pages of listings; see `crate::walk`.
//!
//! The index is forced and nothing is sorted, so only as many rows as the LIMIT are read.

use lockhouse_core::Owner;

use super::read::with_permits;
use super::sql::Text;
use crate::sql::{Script, list};
use crate::walk::{IndexRange, Stretch};

/// The SELECT of the entries of `stretch`.
pub(super) fn stretch(owner: Option<&Owner>, stretch: &Stretch) -> String {
    let (index, live) = match owner {
        Some(owner) => ("held_by", format!("r.held_by={}", Text(owner.as_str()))),
        None => ("walk", "r.state='ACQUIRED'".to_owned()),
    };
    let range = match stretch.range {
        IndexRange::In { group, after } => format!("r.only_semaphore_id={group} AND r.id>{after}"),
        IndexRange::From { group } => format!("r.only_semaphore_id>={group}"),
    };
    let holds = match stretch.holds {
        Some(id) => format!(
            "(SELECT 1 FROM lockhouse_permit h FORCE INDEX (PRIMARY) \
             WHERE h.permit_request_id=r.id AND h.semaphore_id={id})"
        ),
        None => "1".to_owned(),
    };
    format!(
        "SELECT r.only_semaphore_id,r.id,{holds} FROM lockhouse_permit_request r FORCE INDEX ({index}) \
         WHERE {live} AND {range} ORDER BY r.only_semaphore_id,r.id LIMIT {}",
        stretch.limit
    )
}

/// The live requests among `ids`, with their permits.
pub(super) fn live(ids: &[u64]) -> Script {
    with_permits(&format!(
        "SELECT r.* FROM lockhouse_permit_request r FORCE INDEX (PRIMARY) \
         WHERE r.id IN ({}) AND r.state='ACQUIRED'",
        list(ids)
    ))
}
