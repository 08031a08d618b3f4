//! Splits a history into windows, and checks whether the calls of each window have an order.

use std::collections::{BTreeMap, BTreeSet};

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

use crate::history::{Answer, Call, NEVER, Operation, Refused};

/// How many calls of a window without an order are shown.
const SHOWN: usize = 12;

/// The most calls of a window that is checked.
const MOST: usize = 64;

/// The most calls under way at once in a window that is checked. The search takes up to 2 to the power of that.
const WIDEST: usize = 14;

/// The verdict on a history.
#[derive(Debug, Default)]
pub struct Windows {
    /// How many windows have an order.
    pub linearizable: usize,
    /// How many windows were skipped.
    pub passed_over: usize,
    /// The windows without an order, with their semaphore.
    pub broken: Vec<(String, Vec<Operation>)>,
}

/// Checks all windows of all semaphores of `history`.
pub fn windows(history: &[Operation]) -> Windows {
    let mut found = Windows::default();
    for (semaphore, steps) in by_semaphore(history) {
        found.look_at(&semaphore, steps, &[]);
    }
    found
}

/// Checks the windows of `semaphore`. Skips windows that overlap an `unclear` span, in which it is unknown which permits are
/// held. `history` must not have calls without an answer.
pub(super) fn windows_of(
    history: &[Operation],
    semaphore: &str,
    unclear: &[(u64, u64)],
) -> Windows {
    let mut found = Windows::default();
    if let Some(steps) = by_semaphore(history).remove(semaphore) {
        found.look_at(semaphore, steps, unclear);
    }
    found
}

impl Windows {
    /// The violations, in words.
    pub fn said(&self) -> impl Iterator<Item = String> {
        self.broken.iter().map(|(semaphore, operations)| {
            let shown = operations.iter().take(SHOWN);
            let shown: String = shown.map(|operation| format!("\n  {operation}")).collect();
            let all = operations.len();
            format!("{semaphore}: {all} calls have no order{shown}")
        })
    }

    fn look_at(&mut self, semaphore: &str, steps: Vec<(&Operation, Step)>, spans: &[(u64, u64)]) {
        let mut held = Held::default();
        let mut spans = Spans::new(spans);
        for window in split(steps) {
            let before = held.of(&window);
            for (_, step) in &window {
                held.take_on_trust(step);
            }
            let unclear =
                |(_, step): &(&Operation, Step)| matches!(step, Step::Unclear | Step::Capacity(_));
            let is_large = window.len() > MOST || at_once(&window) > WIDEST;
            if is_large || window.iter().any(unclear) || spans.meet(&window) {
                self.passed_over += 1;
            } else if is_linearizable(&before, &window) {
                self.linearizable += 1;
            } else {
                let operations = window.iter().map(|(operation, _)| (*operation).clone());
                self.broken
                    .push((semaphore.to_owned(), operations.collect()));
            }
        }
    }
}

/// The most calls of the window that are under way at once.
fn at_once(window: &[(&Operation, Step)]) -> usize {
    let begins = window.iter().map(|(operation, _)| (operation.begun, true));
    let ends = window.iter().map(|(operation, _)| (operation.ended, false));
    let mut moments: Vec<_> = begins.chain(ends).collect();
    // A call that ends when another begins overlaps it.
    moments.sort_unstable_by_key(|(at, begins)| (*at, !begins));
    let mut now = 0_usize;
    let counts = moments.iter().map(|(_, begins)| {
        now = if *begins { now + 1 } else { now - 1 };
        now
    });
    counts.max().unwrap_or(0)
}

/// Spans of time, to compare with windows in their order.
struct Spans {
    sorted: Vec<(u64, u64)>,
    next: usize,
    until: u64,
}

impl Spans {
    fn new(spans: &[(u64, u64)]) -> Self {
        let mut sorted = spans.to_vec();
        sorted.sort_unstable();
        Self {
            sorted,
            next: 0,
            until: 0,
        }
    }

    /// Whether a span overlaps the window.
    fn meet(&mut self, window: &[(&Operation, Step)]) -> bool {
        let begun = window.iter().map(|(operation, _)| operation.begun).min();
        let ended = window.iter().map(|(operation, _)| operation.ended).max();
        while let Some((from, to)) = self.sorted.get(self.next) {
            if ended.is_none_or(|ended| *from > ended) {
                break;
            }
            self.until = self.until.max(*to);
            self.next += 1;
        }
        self.next > 0 && begun.is_some_and(|begun| begun <= self.until)
    }
}

/// The state of a counted semaphore after some operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Held {
    capacity: i64,
    live: BTreeMap<String, i64>,
    over: BTreeSet<String>,
}

/// A call and its answer, on one semaphore.
#[derive(Clone, Debug)]
enum Step {
    /// Begins a window with the state before it.
    Begin(Held),
    Capacity(i64),
    Granted {
        id: String,
        count: i64,
        now: bool,
    },
    Exhausted {
        id: String,
        count: i64,
    },
    Ended {
        id: String,
        now: bool,
    },
    /// The answer says that the request is over, whatever came before.
    IsOver {
        id: String,
    },
    /// The call cannot be judged.
    Unclear,
}

impl Held {
    /// The state after `step`. `None` if the semaphore would have answered otherwise.
    fn after(&self, step: &Step) -> Option<Self> {
        let mut after = self.clone();
        let used: i64 = self.live.values().sum();
        let fits = match step {
            Step::Begin(held) => {
                after = held.clone();
                true
            }
            Step::Granted { id, count, now } => {
                let new = after.live.insert(id.clone(), *count).is_none();
                new == *now && !self.over.contains(id) && (!new || used + count <= self.capacity)
            }
            Step::Exhausted { id, count } => {
                !self.live.contains_key(id) && used + count > self.capacity
            }
            Step::Ended { id, now } => {
                let was_live = after.live.remove(id).is_some();
                let was_known = !after.over.insert(id.clone());
                was_live == *now && (was_live || was_known)
            }
            Step::IsOver { id } => self.over.contains(id),
            Step::Capacity(_) | Step::Unclear => false,
        };
        fits.then_some(after)
    }

    /// The same state with only the ended ids of the window, as the whole set grows with the history.
    fn of(&self, window: &[(&Operation, Step)]) -> Self {
        let ids = window.iter().filter_map(|(_, step)| step.id());
        let over = ids.filter(|id| self.over.contains(*id));
        Self {
            capacity: self.capacity,
            live: self.live.clone(),
            over: over.map(str::to_owned).collect(),
        }
    }

    /// Applies `step` without a check whether it fits.
    fn take_on_trust(&mut self, step: &Step) {
        match step {
            Step::Capacity(capacity) => self.capacity = *capacity,
            Step::Granted { id, count, .. } if !self.over.contains(id) => {
                self.live.insert(id.clone(), *count);
            }
            Step::Ended { id, .. } | Step::IsOver { id } => {
                self.live.remove(id);
                self.over.insert(id.clone());
            }
            _ => {}
        }
    }
}

impl Step {
    fn id(&self) -> Option<&str> {
        match self {
            Self::Granted { id, .. }
            | Self::Exhausted { id, .. }
            | Self::Ended { id, .. }
            | Self::IsOver { id } => Some(id),
            Self::Begin(_) | Self::Capacity(_) | Self::Unclear => None,
        }
    }
}

/// The ask of an id.
struct Ask<'a> {
    permits: &'a [(String, i64)],
    may_lapse: bool,
}

struct Counted;

impl Specification for Counted {
    type State = Held;
    type Operation = Step;

    fn init() -> Held {
        Held::default()
    }

    fn apply(step: &Step, held: &Held) -> (bool, Held) {
        match held.after(step) {
            Some(after) => (true, after),
            None => (false, held.clone()),
        }
    }
}

fn is_linearizable(before: &Held, window: &[(&Operation, Step)]) -> bool {
    let begin = Step::Begin(before.clone());
    let mut actions = vec![
        (0, Action::Call(begin.clone())),
        (0, Action::Response(begin)),
    ];
    // In one microsecond a beginning comes before an end, so that the two calls may have overlapped.
    let mut moments = Vec::new();
    for (process, (operation, step)) in window.iter().enumerate() {
        moments.push((operation.begun, 0, process + 1, step));
        moments.push((operation.ended, 1, process + 1, step));
    }
    moments.sort_by_key(|(at, kind, process, _)| (*at, *kind, *process));
    actions.extend(moments.into_iter().map(|(_, kind, process, step)| {
        let step = step.clone();
        let action = match kind {
            0 => Action::Call(step),
            _ => Action::Response(step),
        };
        (process, action)
    }));
    WGLChecker::<Counted>::is_linearizable(History::from_actions(actions))
}

/// Splits the history where no call waits for an answer.
fn split(mut steps: Vec<(&Operation, Step)>) -> Vec<Vec<(&Operation, Step)>> {
    steps.sort_by_key(|(operation, _)| operation.begun);
    let mut windows: Vec<Vec<_>> = Vec::new();
    let mut until = 0;
    for step in steps {
        let (begun, ended) = (step.0.begun, step.0.ended);
        match windows.last_mut() {
            Some(window) if begun <= until => window.push(step),
            _ => windows.push(vec![step]),
        }
        until = until.max(ended);
    }
    windows
}

fn by_semaphore(history: &[Operation]) -> BTreeMap<String, Vec<(&Operation, Step)>> {
    let mut asked: BTreeMap<&str, Ask<'_>> = BTreeMap::new();
    for operation in history {
        if let Call::Acquire(ask) = &operation.call {
            let known = asked.entry(&ask.id).or_insert(Ask {
                permits: &ask.permits,
                may_lapse: false,
            });
            known.may_lapse |= ask.ttl_us.is_some() || ask.owner.is_some();
        }
    }
    // No answer says when a template creates, resizes or deletes a semaphore.
    let templates = history
        .iter()
        .filter_map(|operation| match &operation.call {
            Call::Template { pattern, .. } => pattern.strip_suffix('*'),
            _ => None,
        });
    let templates: Vec<_> = templates.collect();
    let may_be_made = |name: &str| templates.iter().any(|prefix| name.starts_with(prefix));
    let mut steps: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for operation in history {
        for (semaphore, step) in steps_of(operation, &asked) {
            if !may_be_made(&semaphore) {
                steps.entry(semaphore).or_default().push((operation, step));
            }
        }
    }
    steps
}

/// The steps of an operation, by semaphore.
fn steps_of(operation: &Operation, asked: &BTreeMap<&str, Ask<'_>>) -> Vec<(String, Step)> {
    if let Call::Define {
        semaphore,
        capacity,
    } = &operation.call
    {
        return vec![(semaphore.clone(), Step::Capacity(*capacity))];
    }
    let (Some(id), unclear) = (operation.id(), Step::Unclear) else {
        return Vec::new();
    };
    let Some(Ask { permits, may_lapse }) = asked.get(id) else {
        return Vec::new();
    };
    let id = || id.to_owned();
    let on_all = |step: Step| {
        let names = permits.iter().map(|(name, _)| (name.clone(), step.clone()));
        names.collect()
    };
    if *may_lapse || operation.ended == NEVER {
        return on_all(unclear);
    }
    match (&operation.call, &operation.answer) {
        (Call::Acquire(_), Answer::Granted { permits, now }) => {
            let granted = permits.iter().map(|permit| {
                let step = Step::Granted {
                    id: id(),
                    count: permit.count,
                    now: *now,
                };
                (permit.semaphore.clone(), step)
            });
            granted.collect()
        }
        // An ask with waiters ahead may be refused even if there is room.
        (Call::Acquire(ask), Answer::Refused(Refused::Exhausted(on))) if !ask.waits => {
            let lacking = ask.permits.iter().filter(|(name, _)| on.contains(name));
            let exhausted = lacking.map(|(name, count)| {
                let step = Step::Exhausted {
                    id: id(),
                    count: *count,
                };
                (name.clone(), step)
            });
            exhausted.collect()
        }
        (Call::Release { .. } | Call::Force { .. }, Answer::Ended { now, .. }) => {
            on_all(Step::Ended {
                id: id(),
                now: *now,
            })
        }
        (_, Answer::Refused(Refused::Ended(_))) => on_all(Step::IsOver { id: id() }),
        (_, Answer::Refused(Refused::Conflict | Refused::TooMuch)) => Vec::new(),
        _ => on_all(unclear),
    }
}
