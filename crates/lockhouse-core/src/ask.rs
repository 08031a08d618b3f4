//! Asks: the permits that a caller wants.

use std::collections::BTreeMap;

use crate::{Count, ExternalId, Invalid, Owner, Priority, Request, SemaphoreName, Ttl};

/// The most semaphores that one request may name.
pub const MAX_SEMAPHORES_A_REQUEST: usize = 64;

/// One all-or-nothing ask for permits on one or more semaphores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The idempotency key.
    pub external_id: ExternalId,
    /// The owner of the permits.
    pub owner: Option<Owner>,
    /// How long the hold lasts after a grant or a renewal. Without it, the hold lasts until it is
    /// released.
    pub ttl: Option<Ttl>,
    /// The priority among waiters.
    pub priority: Priority,
    permits: BTreeMap<SemaphoreName, Count>,
}

impl Ask {
    /// An ask for `permits`, in any order, without owner, TTL or priority.
    ///
    /// # Errors
    /// [`Invalid`] on `permits` if they name no semaphore, more than 64, or one of them twice.
    pub fn new(
        external_id: ExternalId,
        permits: impl IntoIterator<Item = (SemaphoreName, Count)>,
    ) -> Result<Self, Invalid> {
        let mut named = BTreeMap::new();
        for (semaphore, count) in permits {
            if named.contains_key(&semaphore) {
                return Err(Invalid::new(
                    "permits",
                    format!("name \"{semaphore}\" twice; name it once, with a count"),
                ));
            }
            named.insert(semaphore, count);
        }
        if !(1..=MAX_SEMAPHORES_A_REQUEST).contains(&named.len()) {
            let problem = format!(
                "name {} semaphores, it takes 1 to {MAX_SEMAPHORES_A_REQUEST}",
                named.len()
            );
            return Err(Invalid::new("permits", problem));
        }
        Ok(Self {
            external_id,
            owner: None,
            ttl: None,
            priority: Priority::default(),
            permits: named,
        })
    }

    /// The permits that are asked for, in byte order of the names.
    pub fn permits(&self) -> impl ExactSizeIterator<Item = (&SemaphoreName, Count)> {
        self.permits.iter().map(|(name, count)| (name, *count))
    }

    /// Whether `request` was granted to the same ask (P5): the same permits and the same owner. TTL
    /// and priority do not count.
    pub fn is_that_of(&self, request: &Request) -> bool {
        self.owner == request.owner
            && self.permits().len() == request.permits.len()
            && self
                .permits()
                .zip(&request.permits)
                .all(|((name, count), permit)| *name == permit.semaphore && count == permit.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(names: impl IntoIterator<Item = String>) -> Result<Ask, Invalid> {
        let names = names
            .into_iter()
            .map(|n| (SemaphoreName::parse(n).unwrap(), Count::ONE));
        Ask::new(ExternalId::parse("a").unwrap(), names)
    }

    #[test]
    fn an_ask_names_1_to_64_semaphores_once_each() {
        assert!(ask([]).is_err());
        assert!(ask((0..64).map(|i| i.to_string())).is_ok());
        assert!(ask((0..65).map(|i| i.to_string())).is_err());
        let twice = ask(["a".into(), "a".into()]).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "permits name \"a\" twice; name it once, with a count"
        );
    }
}
