//! Templates.

use lockhouse_core::{Capacity, Idle, Invalid, Pattern, Timestamp};
use serde::{Deserialize, Serialize};

use super::number::{perhaps_whole, whole};

/// The body of `PUT /v1/templates/{pattern}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefineTemplate {
    /// The capacity of its semaphores from now on.
    #[serde(deserialize_with = "whole")]
    pub capacity: i64,
    /// How long an unused semaphore is kept; by default 7 days.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "perhaps_whole"
    )]
    pub idle_ms: Option<i64>,
}

/// A template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// The names that it matches: a prefix and `*`.
    pub pattern: String,
    /// The capacity of its semaphores, except of those that were resized by hand.
    pub capacity: u32,
    /// How long an unused semaphore is kept.
    pub idle_ms: u64,
    /// When it was first set.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A page of the list of templates, in byte order of their patterns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Templates {
    /// The templates.
    pub templates: Vec<Template>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl From<&lockhouse_core::Template> for Template {
    fn from(template: &lockhouse_core::Template) -> Self {
        Self {
            pattern: template.pattern.to_string(),
            capacity: template.capacity.value(),
            idle_ms: template.idle.as_ms(),
            created_at: template.created_at,
            updated_at: template.updated_at,
        }
    }
}

impl TryFrom<Template> for lockhouse_core::Template {
    type Error = Invalid;

    fn try_from(template: Template) -> Result<Self, Invalid> {
        Ok(Self {
            pattern: Pattern::parse(&template.pattern)?,
            capacity: Capacity::new(template.capacity)?,
            idle: Idle::from_ms(template.idle_ms)?,
            created_at: template.created_at,
            updated_at: template.updated_at,
        })
    }
}

impl From<&lockhouse_core::TemplateDefinition> for DefineTemplate {
    fn from(definition: &lockhouse_core::TemplateDefinition) -> Self {
        Self {
            capacity: definition.capacity.value().into(),
            idle_ms: Some(definition.idle.as_ms().cast_signed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_comes_back_as_it_was_sent() {
        let template = lockhouse_core::Template {
            pattern: Pattern::parse("customer/*").unwrap(),
            capacity: Capacity::new(2).unwrap(),
            idle: Idle::default(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: "2026-01-02T03:04:05.678901Z".parse().unwrap(),
        };
        let sent = serde_json::to_value(Template::from(&template)).unwrap();
        assert_eq!(sent["idle_ms"], 604_800_000);
        let read: Template = serde_json::from_value(sent).unwrap();
        assert_eq!(lockhouse_core::Template::try_from(read), Ok(template));
    }
}
