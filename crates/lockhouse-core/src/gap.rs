//! Locked gaps: ranges of keys in which another transaction prevents all inserts.

use std::mem;

use crate::{ExternalId, Owner, SemaphoreName};

/// The key of a row that a command may make.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The name of a semaphore.
    Semaphore(SemaphoreName),
    /// The id of a request.
    Request(ExternalId),
    /// The owner of a session.
    Session(Owner),
}

impl Key {
    /// Its text.
    pub fn as_str(&self) -> &str {
        match self {
            Key::Semaphore(name) => name.as_str(),
            Key::Request(id) => id.as_str(),
            Key::Session(owner) => owner.as_str(),
        }
    }
}

/// A gap between two rows of one kind, into which no row can be inserted now.
///
/// InnoDB locks gaps: at REPEATABLE READ, a locking read of a key that does not exist locks the gap
/// that the key would be in, and nobody can insert a row there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    refused: Key,
    /// The keys at its ends, where `None` is the end of the index. Without ends the gap has only the refused key.
    between: Option<[Option<String>; 2]>,
}

impl Gap {
    /// The gap of the one key `refused`.
    pub fn of(refused: Key) -> Self {
        Self {
            refused,
            between: None,
        }
    }

    /// The gap of `refused` after one existing key of its kind and before another. `None` stands for
    /// the ends of the index.
    pub fn between(refused: Key, after: Option<String>, before: Option<String>) -> Self {
        Self {
            refused,
            between: Some([after, before]),
        }
    }

    /// A key in the gap, whose row could not be inserted.
    pub fn refused(&self) -> &Key {
        &self.refused
    }

    /// Whether `key` is in the gap.
    pub fn has(&self, key: &Key) -> bool {
        let Some([after, before]) = &self.between else {
            return self.refused == *key;
        };
        let is_after = |end: &String| end.as_str() < key.as_str();
        let is_before = |end: &String| key.as_str() < end.as_str();
        mem::discriminant(key) == mem::discriminant(&self.refused)
            && after.as_ref().is_none_or(is_after)
            && before.as_ref().is_none_or(is_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_has_the_keys_of_its_kind_between_its_ends() {
        let name = |name: &str| Key::Semaphore(SemaphoreName::parse(name).unwrap());
        let gap = Gap::between(name("f"), Some("d".into()), None);
        assert!(gap.has(&name("d!")) && gap.has(&name("zz")));
        assert!(!gap.has(&name("d")) && !gap.has(&name("c")));
        let owner = Key::Session(Owner::parse("f").unwrap());
        assert!(!gap.has(&owner));
        assert!(Gap::of(owner.clone()).has(&owner) && !Gap::of(owner).has(&name("f")));
    }
}
