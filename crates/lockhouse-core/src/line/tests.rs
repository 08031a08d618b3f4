use super::*;
use crate::Priority;

const START_S: i64 = 1_800_000_000;

fn now(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(START_S * 1_000 + ms).unwrap()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn capacity(permits: u32) -> Capacity {
    Capacity::new(permits).unwrap()
}

fn seniority(waited_ms: u64) -> Seniority {
    Seniority::new(ms(waited_ms), Priority::default())
}

fn waits(process: u64, waited_ms: u64) -> Claim {
    Claim {
        process: ProcessId::new(process),
        seniority: seniority(waited_ms),
        waits: true,
    }
}

fn tries(process: u64) -> Claim {
    Claim {
        waits: false,
        ..waits(process, 0)
    }
}

/// A line with one free permit at `at_ms`, and entries of (process, waited in ms, count).
fn line(at_ms: i64, entries: &[(u64, u64, u32)]) -> Line {
    let mut line = Line::default();
    for (process, waited_ms, count) in entries {
        let standing = Standing {
            seniority: seniority(*waited_ms),
            count: Count::new(*count).unwrap(),
            waiting: 1,
        };
        let at = line.time(now(at_ms));
        line.stand(ProcessId::new(*process), Some(standing), at);
    }
    line.settle(1, false, now(at_ms));
    line
}

fn is_admitted(line: &Line, claim: &Claim, at_ms: i64) -> bool {
    let at = line.time(now(at_ms));
    line.admission(claim, capacity(9), at) == Admission::Now
}

#[test]
fn a_waiter_comes_before_those_at_other_processes_that_came_more_than_the_window_later() {
    let line = line(0, &[(1, 1_000, 1), (2, 700, 1)]);
    assert!(is_admitted(&line, &waits(1, 1_000), 0));
    assert!(!is_admitted(&line, &waits(2, 700), 0));
    assert!(is_admitted(&line, &waits(2, 760), 0), "within the window");
    assert!(!is_admitted(&line, &waits(3, 100), 0));
    assert!(is_admitted(&line, &waits(3, 2_000), 0));
}

#[test]
fn an_ask_that_does_not_wait_goes_past_nobody() {
    let line = line(0, &[(1, 10, 1)]);
    assert!(!is_admitted(&line, &tries(2), 0));
    assert!(
        is_admitted(&line, &tries(1), 0),
        "its process has its own line"
    );
    assert!(is_admitted(&Line::default(), &tries(2), 0));
}

#[test]
fn a_step_of_priority_is_worth_ten_seconds_between_processes() {
    let line = line(0, &[(1, 9_000, 1)]);
    let mut claim = waits(2, 0);
    assert!(!is_admitted(&line, &claim, 0));
    claim.seniority = Seniority::new(ms(0), Priority::new(1).unwrap());
    assert!(is_admitted(&line, &claim, 0));
}

#[test]
fn an_entry_that_wants_more_than_the_capacity_keeps_nobody_waiting() {
    let line = line(0, &[(1, 1_000, 10)]);
    assert!(is_admitted(&line, &waits(2, 0), 0));
    let at = line.time(now(0));
    let admission = line.admission(&waits(2, 0), capacity(10), at);
    assert!(matches!(admission, Admission::At(_)));
}

/// 700 ms with one ahead, and 500 ms more each time that their number doubles.
#[test]
fn silent_processes_ahead_are_passed_over() {
    for (ahead, after_ms) in [
        (1, 700),
        (2, 1_200),
        (3, 1_700),
        (4, 1_700),
        (6, 2_200),
        (8, 2_200),
    ] {
        let entries: Vec<_> = (0..ahead).map(|i| (i + 1, 5_000, 1)).collect();
        let line = line(0, &entries);
        let claim = waits(99, 0);
        assert!(!is_admitted(&line, &claim, after_ms - 1), "{ahead} ahead");
        assert!(is_admitted(&line, &claim, after_ms), "{ahead} ahead");
    }
}

#[test]
fn only_entries_that_were_passed_over_are_removed() {
    let mut line = line(0, &[(1, 5_000, 1), (2, 4_000, 10), (3, 1_000, 1)]);
    let at = line.time(now(700));
    line.pass_over(&waits(9, 2_000), capacity(9), at);
    let left: Vec<_> = line.entries().iter().map(|entry| entry.process).collect();
    assert_eq!(left, [2, 3].map(ProcessId::new));
}

#[test]
fn the_time_that_permits_are_left_begins_when_they_come_free_and_restarts_on_demand() {
    let mut line = line(0, &[(1, 5_000, 1)]);
    let claim = waits(2, 0);
    line.settle(1, false, now(600));
    assert!(is_admitted(&line, &claim, 700), "since the first");
    line.settle(1, true, now(650));
    assert!(!is_admitted(&line, &claim, 700), "restarted");
    line.settle(0, false, now(700));
    line.settle(1, false, now(2_000));
    assert!(!is_admitted(&line, &claim, 2_699));
    assert!(is_admitted(&line, &claim, 2_700));
}

#[test]
fn a_process_that_was_not_heard_of_for_a_minute_does_not_count() {
    let mut line = line(0, &[(1, 5_000, 1), (2, 1_000, 1)]);
    // If nothing was written meanwhile, the line would take such a pause for a clock that was set.
    for s in [20, 40, 60] {
        let at = line.time(now(s * 1_000));
        let standing = line.entry(ProcessId::new(2)).map(|entry| Standing {
            seniority: seniority(at.since(entry.place).as_millis() as u64),
            count: Count::ONE,
            waiting: 1,
        });
        line.stand(ProcessId::new(2), standing, at);
        line.settle(0, false, now(s * 1_000));
    }
    assert_eq!(line.entries().len(), 2);
    assert!(!is_admitted(&line, &waits(3, 61_000), 60_000));
    assert!(is_admitted(&line, &waits(3, 61_001), 60_001));
    line.settle(0, false, now(60_001));
    assert_eq!(line.entries().len(), 1);
}

#[test]
fn a_clock_that_is_set_moves_nobody() {
    for set_ms in [-3_600_000, 3_600_000] {
        let mut line = line(0, &[(1, 5_000, 1)]);
        let before = line.time(now(100));
        line.settle(1, false, now(100));
        line.settle(1, false, now(100 + set_ms));
        let after = line.time(now(100 + set_ms));
        assert_eq!(after, before);
        assert_eq!(line.time(now(300 + set_ms)), before + ms(200));
        assert!(!is_admitted(&line, &waits(2, 0), 600 + set_ms));
        assert!(is_admitted(&line, &waits(2, 0), 700 + set_ms));
    }
}

#[test]
fn a_line_without_entries_is_nothing() {
    let mut line = line(0, &[(1, 5_000, 1)]);
    let at = line.time(now(10));
    line.stand(ProcessId::new(1), None, at);
    line.settle(1, false, now(10));
    assert_eq!(line, Line::default());
    assert_eq!(line.to_string(), "");
}

#[test]
fn a_line_is_read_as_it_was_written() {
    let mut full = line(0, &[]);
    let at = full.time(now(0));
    for process in 0..2 * MAX_LINE as u64 {
        let standing = Standing {
            seniority: Seniority::new(Duration::MAX, Priority::new(-100).unwrap()),
            count: Count::new(crate::MAX_COUNT).unwrap(),
            waiting: u32::MAX,
        };
        full.stand(ProcessId::new(u64::MAX - process), Some(standing), at);
    }
    full.settle(3, false, now(0));
    assert_eq!(full.entries().len(), MAX_LINE);
    assert!(full.to_string().len() <= MAX_LINE_BYTES);
    for line in [Line::default(), line(7, &[(1, 5_000, 1), (2, 1, 7)]), full] {
        assert_eq!(Line::stored(&line.to_string()), line);
    }
}

#[test]
fn a_text_that_makes_no_sense_is_an_empty_line() {
    let good = line(7, &[(1, 5_000, 1)]).to_string();
    assert!(!Line::stored(&good).is_empty());
    for text in [
        "x",
        ";",
        " ",
        "1 2",
        "1 2 3 4;",
        "1 2 3",
        "1 2 -",
        "1 2 3;1 2",
        "1 2 x;1 2 3 4 5",
        "1 2 3;1 z 3 4 5",
    ] {
        assert_eq!(Line::stored(text), Line::default(), "{text:?}");
    }
    for end in 1..good.len() {
        let _ = Line::stored(&good[..end]);
    }
}

/// Whatever text the row has, some ask is admitted in the end.
#[test]
fn no_text_keeps_everybody_waiting_for_ever() {
    let most = i64::MAX;
    for text in [
        format!("{most} 0 {most};{most} 1 {most} 1 1"),
        format!("-{most} {most} -{most};-{most} 1 {most} 1 1"),
        format!("0 -{most} -;-{most} 1 0 1 1"),
    ] {
        let mut line = Line::stored(&text);
        let admitted = (0..200).any(|second| {
            line.settle(1, false, now(second * 1_000));
            is_admitted(&line, &tries(2), second * 1_000)
        });
        assert!(admitted, "{text}");
    }
}
