//! Semaphores, and the history of their capacities.

use lockhouse_core::{
    Capacity, Definition, Invalid, Note, Origin, Owner, Pattern, SemaphoreName, SemaphoreStatus,
    Slots, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::number::{perhaps_whole, whole};

/// The body of `PUT /v1/semaphores/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Define {
    /// The capacity from now on.
    #[serde(deserialize_with = "whole")]
    pub capacity: i64,
    /// Whether its permits have slots. Without it, an existing semaphore keeps its mode, and a new
    /// one has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<bool>,
    /// Change it only if this is the capacity now, or the new one already.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "perhaps_whole"
    )]
    pub expected_capacity: Option<i64>,
    /// The author of the change, for the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<String>,
    /// Why it changes, for the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Semaphore {
    /// Its name.
    pub name: String,
    /// How many permits it has.
    pub capacity: u32,
    /// How many of them are held.
    pub in_use: u32,
    /// How many could be granted now. Never below 0.
    pub available: u32,
    /// How many calls wait for it, at all processes.
    pub waiting: u32,
    /// The fence of the last grant; 0 before the first.
    pub fence: u64,
    /// The template that created it, if one did.
    #[serde(default)]
    pub template: Option<String>,
    /// Whether a template created it and it has been resized by hand since.
    #[serde(default)]
    pub resized: bool,
    /// Whether its permits have slots.
    #[serde(default)]
    pub slots: bool,
    /// When it was defined.
    pub created_at: Timestamp,
    /// When its capacity was last set.
    pub updated_at: Timestamp,
}

/// A page of the list of semaphores, in byte order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Semaphores {
    /// The semaphores.
    pub semaphores: Vec<Semaphore>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// One change of a capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityChange {
    /// The capacity before.
    pub old_capacity: u32,
    /// The capacity after.
    pub new_capacity: u32,
    /// The author of the change, if the caller named one.
    pub changed_by: Option<String>,
    /// Why it was changed, if the caller said so.
    pub note: Option<String>,
    /// When.
    pub changed_at: Timestamp,
}

/// The latest changes of a semaphore's capacity, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The changes.
    pub changes: Vec<CapacityChange>,
}

impl From<&Definition> for Define {
    /// Headers say whether the semaphore must exist, and whether it may be changed.
    fn from(definition: &Definition) -> Self {
        Self {
            capacity: definition.capacity.value().into(),
            slots: definition.slots,
            expected_capacity: definition.expected.map(|expected| expected.value().into()),
            changed_by: definition.changed_by.as_ref().map(Owner::to_string),
            note: definition
                .note
                .as_ref()
                .map(|note| note.as_str().to_owned()),
        }
    }
}

impl From<&SemaphoreStatus> for Semaphore {
    fn from(status: &SemaphoreStatus) -> Self {
        let semaphore = &status.semaphore;
        let origin = semaphore.origin.as_ref();
        Self {
            name: semaphore.name.to_string(),
            capacity: semaphore.capacity.value(),
            in_use: semaphore.in_use,
            available: semaphore.available(),
            waiting: status.waiting,
            fence: semaphore.fence,
            template: origin.map(|origin| origin.template.to_string()),
            resized: origin.is_some_and(|origin| origin.is_resized),
            slots: semaphore.is_slotted(),
            created_at: semaphore.created_at,
            updated_at: semaphore.updated_at,
        }
    }
}

impl TryFrom<Semaphore> for SemaphoreStatus {
    type Error = Invalid;

    /// The API does not say when it was last used, so this is the time of its last change.
    fn try_from(semaphore: Semaphore) -> Result<Self, Invalid> {
        let template = semaphore.template.as_deref().map(Pattern::parse);
        let origin = template.transpose()?.map(|template| Origin {
            template,
            is_resized: semaphore.resized,
            used_at: semaphore.updated_at,
        });
        Ok(Self {
            semaphore: lockhouse_core::SemaphoreRow {
                name: SemaphoreName::parse(&semaphore.name)?,
                capacity: Capacity::new(semaphore.capacity)?,
                in_use: semaphore.in_use,
                fence: semaphore.fence,
                created_at: semaphore.created_at,
                updated_at: semaphore.updated_at,
                deleted_at: None,
                line: lockhouse_core::Line::default(),
                origin,
                // The API does not say which slots are taken.
                slots: semaphore.slots.then(Slots::default),
            },
            waiting: semaphore.waiting,
        })
    }
}

impl From<&lockhouse_core::CapacityChange> for CapacityChange {
    fn from(change: &lockhouse_core::CapacityChange) -> Self {
        Self {
            old_capacity: change.old_capacity.value(),
            new_capacity: change.new_capacity.value(),
            changed_by: change.changed_by.as_ref().map(Owner::to_string),
            note: change.note.as_ref().map(|note| note.as_str().to_owned()),
            changed_at: change.changed_at,
        }
    }
}

impl CapacityChange {
    /// The change as one of the semaphore `name`.
    ///
    /// # Errors
    /// [`Invalid`] if a value is out of bounds.
    pub fn of(self, name: &SemaphoreName) -> Result<lockhouse_core::CapacityChange, Invalid> {
        Ok(lockhouse_core::CapacityChange {
            semaphore: name.clone(),
            old_capacity: Capacity::new(self.old_capacity)?,
            new_capacity: Capacity::new(self.new_capacity)?,
            changed_by: self.changed_by.map(Owner::parse).transpose()?,
            note: self.note.map(Note::parse).transpose()?,
            changed_at: self.changed_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_comes_back_as_it_was_sent() {
        let status = SemaphoreStatus {
            semaphore: lockhouse_core::SemaphoreRow {
                name: SemaphoreName::parse("a/b").unwrap(),
                capacity: Capacity::new(3).unwrap(),
                in_use: 5,
                fence: u64::MAX,
                created_at: Timestamp::UNIX_EPOCH,
                updated_at: "2026-01-02T03:04:05.678901Z".parse().unwrap(),
                deleted_at: None,
                line: lockhouse_core::Line::default(),
                origin: Some(Origin {
                    template: Pattern::parse("a/*").unwrap(),
                    is_resized: true,
                    used_at: "2026-01-02T03:04:05.678901Z".parse().unwrap(),
                }),
                slots: Some(Slots::default()),
            },
            waiting: 2,
        };
        let sent = serde_json::to_value(Semaphore::from(&status)).unwrap();
        assert_eq!(
            sent["available"], 0,
            "in use beyond the capacity is not below 0"
        );
        assert_eq!(sent["updated_at"], "2026-01-02T03:04:05.678901Z");
        let read: Semaphore = serde_json::from_value(sent).unwrap();
        assert_eq!(SemaphoreStatus::try_from(read).unwrap(), status);
    }

    #[test]
    fn a_capacity_change_comes_back_as_it_was_sent() {
        let name = SemaphoreName::parse("a").unwrap();
        let change = lockhouse_core::CapacityChange {
            semaphore: name.clone(),
            old_capacity: Capacity::CLOSED,
            new_capacity: Capacity::new(i32::MAX).unwrap(),
            changed_by: Some(Owner::parse("ann").unwrap()),
            note: Some(Note::parse("more\nroom").unwrap()),
            changed_at: Timestamp::UNIX_EPOCH,
        };
        let sent = serde_json::to_string(&CapacityChange::from(&change)).unwrap();
        let read: CapacityChange = serde_json::from_str(&sent).unwrap();
        assert_eq!(read.of(&name).unwrap(), change);
    }
}
