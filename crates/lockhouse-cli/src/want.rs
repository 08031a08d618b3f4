//! The ask of `acquire` and `run`.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use lockhouse::{Ask, Count, Error, ExternalId, Invalid, Owner, Priority, SemaphoreName, Ttl};

/// The options that `acquire` and `run` share.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// A semaphore, and how many of its permits (default 1). Repeat it for each semaphore: all permits are
    /// granted at once, or none. A name that contains = needs a count: disk=sda=1
    #[arg(
        short,
        long = "semaphore",
        value_name = "NAME[=COUNT]",
        required = true
    )]
    semaphores: Vec<Want>,
    /// The idempotency key: asking again with the same id and the same permits returns the same grant. By default
    /// a generated UUID
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// The holder of the permits: a job id, or a host and pid
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// The priority among waiters, -100 to 100: each step counts as 10 s of waiting
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    priority: i32,
}

impl Wanted {
    pub(crate) fn ask(&self, ttl: Option<Duration>) -> Result<Ask, Error> {
        let permits = self
            .semaphores
            .iter()
            .map(|want| Ok((SemaphoreName::parse(&want.name)?, Count::new(want.count)?)))
            .collect::<Result<Vec<_>, Invalid>>()?;
        let external_id = match &self.id {
            Some(id) => ExternalId::parse(id)?,
            None => ExternalId::parse(uuid::Uuid::now_v7().to_string())?,
        };
        let mut ask = Ask::new(external_id, permits)?;
        ask.owner = self.owner.as_deref().map(Owner::parse).transpose()?;
        ask.ttl = ttl.map(Ttl::new).transpose()?;
        ask.priority = Priority::new(self.priority)?;
        Ok(ask)
    }
}

/// How long to wait: a duration, or `forever`.
pub(crate) fn patience(text: &str) -> Result<Duration, humantime::DurationError> {
    match text {
        "forever" => Ok(Duration::MAX),
        text => humantime::parse_duration(text),
    }
}

/// `NAME[=COUNT]`, not yet validated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Want {
    name: String,
    count: i128,
}

impl FromStr for Want {
    type Err = String;

    /// The count follows the last `=`. A name may have others before that.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = text.rsplit_once('=').unwrap_or((text, "1"));
        let digits = count.strip_prefix(['+', '-']).unwrap_or(count);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!(
                "the count {count:?} is not a number; if = is part of the name, write {text}=1"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            count: count.parse().unwrap_or(i128::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_and_a_count_come_back_as_they_were_said(name: String, count: i64, rest: String) {
            let counted = format!("{name}={count}").parse();
            let want = Want { name: name.clone(), count: count.into() };
            prop_assert_eq!(counted, Ok(want));
            if let Ok(want) = rest.parse::<Want>() {
                let named = rest.strip_prefix(&want.name);
                prop_assert!(named.is_some_and(|count| count.is_empty() || count.starts_with('=')));
            }
        }
    }

    #[test]
    fn a_number_after_the_last_equals_sign_is_a_count() {
        for (text, name, count) in [
            ("a", "a", 1),
            ("a=3", "a", 3),
            ("a=b=3", "a=b", 3),
            ("a=3=1", "a=3", 1),
            ("a=-1", "a", -1),
            ("a=0", "a", 0),
            ("=2", "", 2),
        ] {
            let want = text.parse();
            let name = name.to_owned();
            assert_eq!(want, Ok(Want { name, count }), "{text}");
        }
    }

    #[test]
    fn a_count_that_is_no_number_is_refused() {
        for text in ["a=b", "s1=x", "a=", "a=-", "a=1.5"] {
            let refused = text.parse::<Want>().unwrap_err();
            assert!(refused.ends_with(&format!("write {text}=1")), "{refused}");
        }
    }

    #[test]
    fn a_count_that_is_too_large_is_still_read_as_a_count() {
        let want: Want = format!("a={}", "9".repeat(60)).parse().unwrap();
        assert_eq!(want.name, "a");
        assert!(Count::new(want.count).is_err());
    }
}
