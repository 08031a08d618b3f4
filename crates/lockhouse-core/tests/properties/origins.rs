//! Templates and their semaphores, read from the log.

use lockhouse_core::{Line, Origin, SemaphoreName, SemaphoreRow, Template, Timestamp};

use crate::log::{self, Entry, Event};

/// The current templates.
fn templates(log: &[Entry]) -> &[Template] {
    let last = log.iter().rev().find_map(|entry| match &entry.event {
        Event::Templates(templates) => Some(&templates[..]),
        _ => None,
    });
    last.unwrap_or_default()
}

/// The template that makes `name`: the one with the longest pattern.
pub(crate) fn template<'a>(log: &'a [Entry], name: &SemaphoreName) -> Option<&'a Template> {
    let all = templates(log).iter();
    let matching = all.filter(|template| {
        let pattern = template.pattern.as_str();
        name.as_str().starts_with(&pattern[..pattern.len() - 1])
    });
    matching.max_by_key(|template| template.pattern.as_str().len())
}

/// The template with the pattern of `origin`.
pub(crate) fn followed<'a>(log: &'a [Entry], origin: &Origin) -> Option<&'a Template> {
    let mut all = templates(log).iter();
    all.find(|template| template.pattern == origin.template)
}

/// The template that created `semaphore`, if it exists and a template did.
pub(crate) fn of(log: &[Entry], semaphore: &SemaphoreName) -> Option<Origin> {
    let mut origin: Option<Origin> = None;
    for (i, entry) in log.iter().enumerate() {
        let made = |template: &lockhouse_core::Pattern| Origin {
            template: template.clone(),
            is_resized: false,
            used_at: entry.at,
        };
        match &entry.event {
            Event::Made { name, template, .. } if name == semaphore => {
                origin = Some(made(template));
            }
            Event::Defined {
                name,
                capacity,
                slotted,
                of_template,
                ..
            } if name == semaphore => match log::capacity(&log[..i], name) {
                None => origin = of_template.as_ref().map(made),
                Some(was) => {
                    let is_changed =
                        was != *capacity || *slotted != log::is_slotted(&log[..i], name);
                    if let Some(origin) = origin.as_mut().filter(|_| is_changed) {
                        origin.is_resized = true;
                    }
                }
            },
            Event::Deleted(name) if name == semaphore => origin = None,
            Event::Granted(ask) if log::held(ask, semaphore) > 0 => {
                // The time of the last use is kept to the second.
                let is_later = |was: Timestamp| {
                    entry.at.as_millisecond().abs_diff(was.as_millisecond()) >= 1_000
                };
                if let Some(origin) = origin.as_mut().filter(|origin| is_later(origin.used_at)) {
                    origin.used_at = entry.at;
                }
            }
            _ => {}
        }
    }
    origin
}

/// A missing semaphore, as a template would make it.
pub(crate) fn made(log: &[Entry], name: &SemaphoreName, now: Timestamp) -> Option<SemaphoreRow> {
    let template = template(log, name)?;
    Some(SemaphoreRow {
        name: name.clone(),
        capacity: template.capacity,
        in_use: 0,
        fence: log::fence(log, name),
        created_at: now,
        updated_at: now,
        deleted_at: None,
        line: Line::default(),
        origin: Some(Origin {
            template: template.pattern.clone(),
            is_resized: false,
            used_at: now,
        }),
        slots: None,
    })
}
