//! The settings of the upkeep, as flags and as variables of the environment.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lockhouse::liveness::{HttpCheck, OwnerCheck, SqlCheck};
use lockhouse::{Invalid, OwnerPattern, Upkeep};

use crate::failure::Failure;

/// The longest interval, and the greatest age.
const MOST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// The intervals of the tasks, and the checks of owners.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Upkeep")]
pub(crate) struct Intervals {
    /// How often expired requests, those of silent owners, and stale ones are ended: 100ms to 10years
    #[arg(
        long,
        env = "LOCKHOUSE_SWEEP_EVERY",
        value_name = "DURATION",
        default_value = "5m",
        value_parser = sweep_interval
    )]
    sweep_every: Duration,
    /// How often owners are checked: 1s to 10years
    #[arg(
        long,
        env = "LOCKHOUSE_CHECK_EVERY",
        value_name = "DURATION",
        default_value = "5m",
        value_parser = from_a_second
    )]
    check_every: Duration,
    /// How often old ended requests are deleted: 1s to 10years
    #[arg(
        long,
        env = "LOCKHOUSE_PURGE_EVERY",
        value_name = "DURATION",
        default_value = "4h",
        value_parser = from_a_second
    )]
    purge_every: Duration,
    /// How often old capacity changes are deleted: 1s to 10years
    #[arg(
        long,
        env = "LOCKHOUSE_HISTORY_EVERY",
        value_name = "DURATION",
        default_value = "24h",
        value_parser = from_a_second
    )]
    history_every: Duration,
    /// Check whether owners live: URL is asked about each owner whose name matches PATTERN, in which * is any
    /// text. An owner that is gone twice in a row loses everything that it holds. With http(s)://…, which
    /// contains {owner}, 2xx means alive, and 404 or 410 gone. With a database (mysql://…, postgres://… or
    /// sqlite:PATH), QUERY is run with the owner as its parameter ? ($1 on PostgreSQL): one row of 1 or true
    /// means alive; one row of 0 or false, or no row, means gone. Everything else is unknown and ends nothing.
    /// Repeat it for more checks: the first that matches is used. In the variable, write one check per line
    #[arg(
        long = "check",
        env = "LOCKHOUSE_CHECK",
        hide_env_values = true,
        value_name = "PATTERN=URL [QUERY]",
        value_delimiter = '\n'
    )]
    // Parsed later: clap's errors would repeat the argument, which may contain a password.
    checks: Vec<String>,
}

/// The ages at which rows are ended or deleted, and the sizes of purges.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Upkeep")]
pub(crate) struct Ages {
    /// The age at which a request without a TTL is stale and ended, unless its owner has a session: 1s to
    /// 10years
    #[arg(
        long,
        env = "LOCKHOUSE_STALE_AFTER",
        value_name = "DURATION",
        default_value = "24h",
        value_parser = from_a_second
    )]
    stale_after: Duration,
    /// How long after its end the session of an owner that holds nothing is deleted: 1s to 10years
    #[arg(
        long,
        env = "LOCKHOUSE_SESSIONS_AFTER",
        value_name = "DURATION",
        default_value = "1m",
        value_parser = from_a_second
    )]
    sessions_after: Duration,
    /// The age at which an ended request is deleted, and its id forgotten: 1s to 10years
    #[arg(
        long,
        env = "LOCKHOUSE_PURGE_AFTER",
        value_name = "DURATION",
        default_value = "7d",
        value_parser = from_a_second
    )]
    purge_after: Duration,
    /// How many rows one transaction deletes at most: 1 to 10000
    #[arg(
        long,
        env = "LOCKHOUSE_PURGE_BATCH",
        value_name = "ROWS",
        default_value_t = 800,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    purge_batch: u32,
    /// The pause between two such transactions: 0s to 1m
    #[arg(
        long,
        env = "LOCKHOUSE_PURGE_PAUSE",
        value_name = "DURATION",
        default_value = "25ms",
        value_parser = pause
    )]
    purge_pause: Duration,
    /// The age at which a capacity change is deleted: 1s to 10years
    #[arg(
        long,
        env = "LOCKHOUSE_HISTORY_AFTER",
        value_name = "DURATION",
        default_value = "30d",
        value_parser = from_a_second
    )]
    history_after: Duration,
}

impl Intervals {
    /// `upkeep` at these intervals.
    pub(crate) fn of(&self, upkeep: Upkeep) -> Result<Upkeep, Failure> {
        Ok(Upkeep {
            sweep_every: self.sweep_every,
            check_every: self.check_every,
            purge_every: self.purge_every,
            history_every: self.history_every,
            checks: self
                .checks
                .iter()
                .map(|check| check.parse::<Check>().map_err(invalid)?.made())
                .collect::<Result<_, Failure>>()?,
            ..upkeep
        })
    }
}

impl Ages {
    /// `upkeep` with these ages.
    pub(crate) fn of(&self, upkeep: Upkeep) -> Upkeep {
        Upkeep {
            stale_after: self.stale_after,
            sessions_after: self.sessions_after,
            purge_after: self.purge_after,
            purge_batch: self.purge_batch,
            purge_pause: self.purge_pause,
            history_after: self.history_after,
            ..upkeep
        }
    }
}

/// `PATTERN=URL`, or `PATTERN=URL QUERY`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    pattern: OwnerPattern,
    url: String,
    /// The query, if the check asks a database.
    query: Option<String>,
}

/// The URL prefixes that end a pattern.
const BEGINS: [&str; 7] = [
    "=http://",
    "=https://",
    "=mysql://",
    "=mariadb://",
    "=postgres://",
    "=postgresql://",
    "=sqlite:",
];

/// The pattern and the URL of a check, which may have a query after it. Either may contain an `=`.
fn parts(text: &str) -> Option<(&str, &str)> {
    let at = BEGINS.iter().filter_map(|begin| text.find(begin)).min()?;
    Some((&text[..at], &text[at + 1..]))
}

/// A check as `--check-config` shows it: without the credentials of its URL.
pub(crate) fn shown_check(text: &str) -> String {
    let Some((pattern, url)) = parts(text) else {
        return lockhouse::without_credentials(text);
    };
    // It may be a URL.
    if pattern.contains(':') && pattern.contains('@') {
        return lockhouse::without_credentials(text);
    }
    let (url, query) = match url.split_once(' ') {
        // A space in a password ends the URL, and the rest of the password begins the query.
        Some((url, query)) if !query.contains('@') => (url, format!(" {query}")),
        _ => (url, String::new()),
    };
    format!("{pattern}={}{query}", lockhouse::without_credentials(url))
}

impl Check {
    fn made(&self) -> Result<(OwnerPattern, Arc<dyn OwnerCheck>), Failure> {
        let check: Arc<dyn OwnerCheck> = match &self.query {
            Some(query) => Arc::new(SqlCheck::new(&self.url, query)?),
            None => Arc::new(HttpCheck::new(&self.url)?),
        };
        Ok((self.pattern.clone(), check))
    }
}

fn invalid(problem: &'static str) -> Failure {
    lockhouse::Error::from(Invalid::new("--check", problem)).into()
}

impl FromStr for Check {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((pattern, url)) = parts(text) else {
            return Err("takes PATTERN=URL, such as 'job-*=https://host/jobs/{owner}'");
        };
        if pattern.is_empty() {
            return Err("has an empty pattern; * fits every owner");
        }
        let (url, query) = match url.split_once(' ') {
            _ if url.starts_with("http") => (url, None),
            Some((url, query)) => (url, Some(query.to_owned())),
            None => {
                return Err("of a database takes PATTERN=URL QUERY, such as \
                    'job-*=mysql://app@db/jobs SELECT alive FROM jobs WHERE id = ?'");
            }
        };
        Ok(Self {
            pattern: OwnerPattern::new(pattern),
            url: url.to_owned(),
            query,
        })
    }
}

fn sweep_interval(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(100), MOST)
}

fn from_a_second(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1), MOST)
}

fn pause(text: &str) -> Result<Duration, String> {
    within(text, Duration::ZERO, Duration::from_secs(60))
}

fn within(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (least..=most).contains(&duration) {
        return Ok(duration);
    }
    let [least, most] = [least, most].map(humantime::format_duration);
    Err(format!("it goes from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use proptest::prelude::*;

    #[test]
    fn a_check_is_shown_without_credentials() {
        for (check, shown) in [
            (
                "job-*=mysql://app:s3cr3t@db/jobs?ssl-ca=a SELECT alive FROM jobs WHERE id = ?",
                "job-*=mysql://db/jobs SELECT alive FROM jobs WHERE id = ?",
            ),
            (
                "ann@host-*=https://app:s3cr3t@ci/{owner}?token=s3cr3t",
                "ann@host-*=https://ci/{owner}",
            ),
            ("a=b=sqlite:/x@y.db SELECT ?", "a=b=sqlite:/x@y.db SELECT ?"),
            (
                "*=mysql://app:12 s3cr3t@db/x SELECT ?",
                "*=mysql://db/x SELECT ",
            ),
            (
                "a=mysqll://app:s3cr3t@db=mysql://db/x SELECT ?",
                "db=mysql://db/x SELECT ",
            ),
            ("mysqll://app:s3cr3t@db/x", "db/x"),
        ] {
            assert_eq!(shown_check(check), shown, "{check}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_a_duration_or_refused(text in "[0-9]{0,22}[a-zµ ]{0,6}[0-9]{0,3}(ms|s|m|y)?") {
            let _ = within(&text, Duration::ZERO, MOST);
        }

        #[test]
        fn a_duration_is_taken_as_it_is_within_its_bounds(ms: u32, other: u32) {
            let [duration, least] = [ms, other].map(|ms| Duration::from_millis(ms.into()));
            let said = humantime::format_duration(duration).to_string();
            let taken = within(&said, least, MOST);
            prop_assert_eq!(taken.ok(), (least..=MOST).contains(&duration).then_some(duration));
        }

        #[test]
        fn a_check_is_read_or_refused(
            pattern in "[a-z*=]{0,8}",
            url in "(http://|mysql://|sqlite:|ftp:)[a-z/{}=? ]{0,16}",
            text: String,
        ) {
            if let Ok(check) = format!("{pattern}={url}").parse::<Check>() {
                let query = check.query.iter().map(|query| format!(" {query}"));
                prop_assert_eq!(query.fold(check.url.clone(), |url, query| url + &query), url);
                prop_assert_eq!(&check.pattern, &OwnerPattern::new(pattern));
                let _ = check.made();
            }
            let _ = text.parse::<Check>();
        }
    }

    #[derive(Parser)]
    struct Both {
        #[command(flatten)]
        intervals: Intervals,
        #[command(flatten)]
        ages: Ages,
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let Both { intervals, ages } = Both::parse_from(["lockhouse"]);
        let nothing = Upkeep {
            sweep_every: Duration::ZERO,
            check_every: Duration::ZERO,
            purge_every: Duration::ZERO,
            history_every: Duration::ZERO,
            stale_after: Duration::ZERO,
            sessions_after: Duration::ZERO,
            purge_after: Duration::ZERO,
            purge_batch: 0,
            purge_pause: Duration::MAX,
            history_after: Duration::ZERO,
            checks: Vec::new(),
        };
        let upkeep = ages.of(intervals.of(nothing).unwrap());
        assert_eq!(format!("{upkeep:?}"), format!("{:?}", Upkeep::default()));
    }

    #[test]
    fn a_check_is_a_pattern_and_a_url() {
        let check = |pattern: &str, url: &str, query: Option<&str>| {
            Ok(Check {
                pattern: OwnerPattern::new(pattern),
                url: url.to_owned(),
                query: query.map(str::to_owned),
            })
        };
        let by_http = |pattern, url| check(pattern, url, None);
        let query = "SELECT a = 1 FROM b WHERE c = ?";
        for (text, expected) in [
            ("*=http://a/{owner}", by_http("*", "http://a/{owner}")),
            (
                "k=v*=https://a/?o={owner}",
                by_http("k=v*", "https://a/?o={owner}"),
            ),
            ("a=https://b/=http://c", by_http("a", "https://b/=http://c")),
            (
                &format!("j-*=mysql://u@h/d?ssl-mode=REQUIRED {query}"),
                check("j-*", "mysql://u@h/d?ssl-mode=REQUIRED", Some(query)),
            ),
            (
                &format!("*=sqlite:a.db {query}"),
                check("*", "sqlite:a.db", Some(query)),
            ),
        ] {
            assert_eq!(text.parse::<Check>(), expected);
        }
        for text in [
            "",
            "*",
            "*=ftp://a/{owner}",
            "=http://a/{owner}",
            "*=postgres://a/b",
        ] {
            assert!(text.parse::<Check>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_out_of_bounds_is_refused_with_its_bounds() {
        assert_eq!(sweep_interval("100ms"), Ok(Duration::from_millis(100)));
        for text in ["99ms", "11years"] {
            let told = sweep_interval(text).unwrap_err();
            assert!(told.starts_with("it goes from 100ms to 10years"), "{told}");
        }
        assert!(from_a_second("999ms").is_err());
        assert_eq!(pause("0s"), Ok(Duration::ZERO));
        assert!(pause("61s").is_err() && pause("soon").is_err());
    }
}
