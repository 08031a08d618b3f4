//! A line as the text in a semaphore's row: its clock, the time since when permits are free, and
//! the entries.
//!
//! The form is `latest skew idle;place process heard count waiting;…`, with times in microseconds
//! and `-` for none. An empty or malformed text is the empty line: the line matters only for the
//! order.

use std::fmt;

use super::{Clock, Entry, Line, LineTime, MAX_LINE, ProcessId};

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        let Clock { latest, skew_us } = self.clock;
        write!(f, "{} {skew_us} ", latest.0)?;
        match self.idle_since {
            Some(since) => write!(f, "{}", since.0)?,
            None => f.write_str("-")?,
        }
        for entry in &self.entries {
            let Entry {
                place,
                process,
                heard,
                count,
                waiting,
            } = entry;
            let (place, heard) = (place.0, heard.0);
            write!(f, ";{place} {process} {heard} {count} {waiting}")?;
        }
        Ok(())
    }
}

impl Line {
    /// The line of a stored `text`. A malformed text gives an empty line.
    pub fn stored(text: &str) -> Self {
        match text {
            "" => Self::default(),
            text => parse(text).unwrap_or_default(),
        }
    }
}

fn parse(text: &str) -> Option<Line> {
    let mut parts = text.split(';');
    let mut head = parts.next()?.split(' ');
    let clock = Clock {
        latest: LineTime(head.next()?.parse().ok()?),
        skew_us: head.next()?.parse().ok()?,
    };
    let idle_since = match head.next()? {
        "-" => None,
        since => Some(LineTime(since.parse().ok()?)),
    };
    if head.next().is_some() {
        return None;
    }
    let mut entries = parts.map(entry).collect::<Option<Vec<_>>>()?;
    entries.sort_by_key(|entry| (entry.place, entry.process));
    entries.truncate(MAX_LINE);
    if entries.is_empty() {
        return None;
    }
    Some(Line {
        entries,
        clock,
        idle_since,
    })
}

fn entry(text: &str) -> Option<Entry> {
    let mut words = text.split(' ');
    let entry = Entry {
        place: LineTime(words.next()?.parse().ok()?),
        process: ProcessId(u64::from_str_radix(words.next()?, 16).ok()?),
        heard: LineTime(words.next()?.parse().ok()?),
        count: words.next()?.parse().ok()?,
        waiting: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(entry)
}
