//! Columns, times and durations for people.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use lockhouse::{Owner, Request, Slots, Timestamp};

/// The text of an empty cell.
pub(crate) const NOTHING: &str = "-";

/// The longest owner in a column on a terminal, in characters.
const LONGEST_OWNER: usize = 40;

/// Rows under a head, in columns three spaces apart.
pub(crate) fn rows<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = bare();
    table.set_header(head);
    for row in rows {
        table.add_row(row.map(one_line));
    }
    finished(table)
}

/// One fact on each line, after its name.
pub(crate) fn facts<const N: usize>(facts: [(&str, String); N]) -> String {
    let mut table = bare();
    for (name, value) in facts {
        table.add_row([format!("{name}:"), one_line(value)]);
    }
    finished(table)
}

/// Requests, one row for each permit.
pub(crate) fn requests<'a>(requests: impl IntoIterator<Item = &'a Request>) -> String {
    let now = Timestamp::now();
    let permits = requests.into_iter().flat_map(|request| {
        request.permits.iter().map(move |permit| {
            [
                request.external_id.to_string(),
                owner(request.owner.as_ref()),
                permit.semaphore.to_string(),
                permit.count.to_string(),
                permit.fence.to_string(),
                or_nothing(permit.slots.as_ref().map(slots)),
                relative(request.created_at, now),
                request
                    .expires_at
                    .map_or_else(|| NOTHING.into(), |expires_at| relative(expires_at, now)),
            ]
        })
    });
    rows(
        [
            "ID",
            "OWNER",
            "SEMAPHORE",
            "COUNT",
            "FENCE",
            "SLOTS",
            "GRANTED",
            "EXPIRES",
        ],
        permits,
    )
}

/// An owner in a column. On a terminal it is shortened in the middle.
pub(crate) fn owner(owner: Option<&Owner>) -> String {
    let text = or_nothing(owner);
    match io::stdout().is_terminal() {
        true => shortened(&text, LONGEST_OWNER),
        false => text,
    }
}

/// `text` in at most `longest` characters: its beginning and its end.
fn shortened(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let (begin, end) = (longest / 2, longest - longest / 2 - 1);
    let begin = text.chars().take(begin);
    let end = text.chars().skip(length - end);
    begin.chain(['…']).chain(end).collect()
}

/// `0,2-5`.
pub(crate) fn slots(slots: &Slots) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for slot in slots.iter() {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => spans.push((slot, slot)),
        }
    }
    let spans = spans.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    spans.collect::<Vec<_>>().join(",")
}

pub(crate) fn or_nothing(text: Option<impl ToString>) -> String {
    text.map_or_else(|| NOTHING.into(), |text| text.to_string())
}

/// `2026-05-04 13:02:01 UTC`.
pub(crate) fn absolute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `in 25s`, `3m 10s ago`. By this machine's clock, which may differ from the store's.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let apart = at.duration_since(now);
    if apart.is_positive() {
        format!("in {}", duration(apart.unsigned_abs()))
    } else {
        format!("{} ago", duration(apart.unsigned_abs()))
    }
}

/// Its two largest units, in whole seconds.
fn duration(duration: Duration) -> String {
    let seconds = Duration::from_secs((duration.as_millis() as u64 + 500) / 1000);
    let text = humantime::format_duration(seconds).to_string();
    let largest: Vec<_> = text.split(' ').take(2).collect();
    largest.join(" ")
}

fn bare() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn finished(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.trim_fmt()
}

/// A note may contain line breaks and tabs, which a row must not.
fn one_line(text: String) -> String {
    text.replace(['\n', '\r', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_without_blanks_at_the_end() {
        let cells = [["backup-slots", "10"], ["é", "2\n3"]];
        let table = rows(["NAME", "NOTE"], cells.map(|row| row.map(str::to_owned)));
        assert_eq!(
            table,
            "NAME           NOTE\nbackup-slots   10\né              2 3"
        );
    }

    #[test]
    fn a_long_text_is_shortened_in_the_middle() {
        assert_eq!(shortened("ann@build-7", 11), "ann@build-7");
        assert_eq!(shortened("ann@build-7", 10), "ann@b…ld-7");
        assert_eq!(shortened("üüüüüü", 5), "üü…üü");
    }

    #[test]
    fn facts_have_no_head() {
        let facts = facts([("Name", "a".into()), ("Capacity", "3".into())]);
        assert_eq!(facts, "Name:       a\nCapacity:   3");
    }

    #[test]
    fn times_are_shown_in_two_units() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |text: &str| relative(text.parse().unwrap(), now);
        assert_eq!(at("2026-01-01T00:00:25.4Z"), "in 25s");
        assert_eq!(at("2025-12-31T23:59:58Z"), "2s ago");
        assert_eq!(at("2025-12-30T20:18:57Z"), "1day 3h ago");
        assert_eq!(at("2026-01-01T00:00:00Z"), "0s ago");
        assert_eq!(absolute(now), "2026-01-01 00:00:00 UTC");
    }
}
