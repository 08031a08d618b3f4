//! The plan of a run: all events and their times are drawn before it begins.
//!
//! So a run can be repeated without some of its steps, and a run that fails can be shortened.

use std::fmt;

use lockhouse::store::Kind;

/// The semaphores. The first [`PLAIN`] of them exist at the beginning. The others are a template's.
pub(super) const NAMES: [&str; 5] = ["a", "b", "c", "k/x", "k/y"];

/// How many of [`NAMES`] are not a template's.
pub(super) const PLAIN: usize = 3;

/// The pattern of the template.
pub(super) const KEYS: &str = "k/*";

/// The prefix of the names that the template matches.
pub(super) const KEY_PREFIX: &str = "k/";

/// A run, before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) seed: u64,
    /// How many servers share the store.
    pub(super) servers: usize,
    /// The capacities of the first [`NAMES`], and whether they have slots.
    pub(super) capacities: [(u32, bool); PLAIN],
    /// The template at the beginning, if the run has one.
    pub(super) template: Option<SetTemplate>,
    /// The most time that the store takes for each half of a call.
    pub(super) slow_ms: u64,
    /// Whether the store notifies the servers of freed permits.
    pub(super) notifies: bool,
    /// Whether no step is a fault. Then more promises are checked.
    pub(super) is_quiet: bool,
    /// The steps, in the order of their times.
    pub(super) steps: Vec<Step>,
}

/// An event of a run.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Its number in the plan as it was drawn. It keeps that if other steps are left out.
    pub(super) number: usize,
    pub(super) at_ms: u64,
    pub(super) server: usize,
    pub(super) deed: Deed,
}

#[derive(Clone, Debug)]
pub(super) enum Deed {
    Acquire(Acquire),
    Hold(Hold),
    Renew {
        id: String,
        ttl_ms: Option<u64>,
    },
    Release {
        id: String,
    },
    Force {
        id: String,
    },
    Define {
        name: usize,
        capacity: u32,
        /// `None` leaves slots unchanged.
        slots: Option<bool>,
    },
    Template(SetTemplate),
    DeleteTemplate,
    Delete {
        name: usize,
    },
    Heartbeat {
        owner: usize,
        ttl_ms: u64,
    },
    Goodbye {
        owner: usize,
    },
    Sweep,
    /// The server's process dies with all its callers, and another takes its place.
    Kill,
    /// A fault of the server's next transaction.
    Fault(Fault),
    /// A fault of the server's next read.
    ReadFault(Fault),
    /// The server can't reach the store for so long. It gets an error at once, or hears nothing.
    Cut {
        ms: u64,
        is_silent: bool,
    },
    /// The server's process is stopped: for that time it sends and receives nothing.
    Stop {
        ms: u64,
    },
    /// The store's clock is set.
    Jump {
        ms: i64,
    },
}

/// A template of [`KEYS`].
#[derive(Clone, Copy, Debug)]
pub(super) struct SetTemplate {
    pub(super) capacity: u32,
    pub(super) idle_ms: u64,
}

/// A call for permits under an id, and the next action of its caller.
#[derive(Clone, Debug)]
pub(super) struct Acquire {
    pub(super) id: String,
    /// The numbers of names, and counts.
    pub(super) permits: Vec<(usize, u32)>,
    pub(super) owner: Option<usize>,
    pub(super) ttl_ms: Option<u64>,
    pub(super) wait_ms: u64,
    pub(super) priority: i32,
    /// How long until its future is dropped.
    pub(super) gives_up_ms: Option<u64>,
    /// How many times the caller asks again if the store was unavailable, each time at another server.
    pub(super) insists: u32,
    pub(super) then: Then,
}

/// The fate of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// Its holder dies.
    Dies,
    Releases {
        after_ms: u64,
    },
    /// Its holder renews it so many times, and releases it.
    Renews {
        every_ms: u64,
        times: u32,
    },
}

/// A permit of the library, which renews itself.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) permits: Vec<(usize, u32)>,
    pub(super) ttl_ms: u64,
    pub(super) wait_ms: u64,
    pub(super) gives_up_ms: Option<u64>,
    pub(super) for_ms: u64,
    pub(super) ends: Ending,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Release,
    Drop,
    Forget,
}

/// A fault of a call to the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Nothing is applied, and the error says so.
    Before(Kind),
    /// The call is applied, and its reply is lost.
    ReplyLost,
    /// The connection is lost at the commit, and nothing is applied.
    CommitLost,
    /// The reply is lost. The call is applied later, and has its locks until then.
    AppliedLate { ms: u64 },
    /// The call hangs, and has its locks meanwhile. In the end it is applied or not, and its reply is lost.
    Stuck { ms: u64, is_applied: bool },
    /// The call takes so long, half of it before the commit.
    Slow { ms: u64 },
}

impl Plan {
    /// The same plan with only the steps for which `keep` returns true.
    pub fn only(&self, keep: impl Fn(usize) -> bool) -> Self {
        let steps = self.steps.iter().filter(|step| keep(step.number));
        Self {
            steps: steps.cloned().collect(),
            ..self.clone()
        }
    }

    /// Whether no step is a fault. Then more promises are checked.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// How many servers share the store.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// Whether the run begins with a template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// The numbers of the steps.
    pub fn numbers(&self) -> Vec<usize> {
        self.steps.iter().map(|step| step.number).collect()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            servers,
            capacities,
            template,
            slow_ms,
            notifies,
            ..
        } = self;
        let mut there = String::new();
        for (name, (capacity, slotted)) in NAMES.iter().zip(capacities) {
            let slots = if *slotted { " with slots" } else { "" };
            there.push_str(&format!("{name}={capacity}{slots}, "));
        }
        if let Some(template) = template {
            there.push_str(&format!("{template}, "));
        }
        let notifications = if *notifies {
            ", with notifications"
        } else {
            ""
        };
        writeln!(
            f,
            "seed {seed}: {servers} servers, {there}\
             a store that takes up to {slow_ms} ms each way{notifications}"
        )?;
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            at_ms,
            server,
            deed,
        } = self;
        write!(f, "  #{number:<3} {at_ms:>6} ms  server {server}  {deed}")
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deed::Acquire(acquire) => acquire.fmt(f),
            Deed::Hold(hold) => hold.fmt(f),
            Deed::Renew { id, ttl_ms } => write!(f, "renew {id} ttl {}", Ms(*ttl_ms)),
            Deed::Release { id } => write!(f, "release {id}"),
            Deed::Force { id } => write!(f, "force {id}"),
            Deed::Define {
                name,
                capacity,
                slots,
            } => {
                let slots = match slots {
                    None => "",
                    Some(true) => " with slots",
                    Some(false) => " without slots",
                };
                write!(f, "define {}={capacity}{slots}", NAMES[*name])
            }
            Deed::Template(template) => template.fmt(f),
            Deed::DeleteTemplate => write!(f, "delete template {KEYS}"),
            Deed::Delete { name } => write!(f, "delete {}", NAMES[*name]),
            Deed::Heartbeat { owner, ttl_ms } => write!(f, "heartbeat o{owner} ttl {ttl_ms} ms"),
            Deed::Goodbye { owner } => write!(f, "goodbye o{owner}"),
            Deed::Sweep => f.write_str("sweep"),
            Deed::Kill => f.write_str("! killed and restarted"),
            Deed::Fault(fault) => write!(f, "! its next transaction: {fault}"),
            Deed::ReadFault(fault) => write!(f, "! its next read: {fault}"),
            Deed::Cut { ms, is_silent } => {
                let how = if *is_silent { "silently" } else { "openly" };
                write!(f, "! cut off for {ms} ms, {how}")
            }
            Deed::Stop { ms } => write!(f, "! stopped for {ms} ms"),
            Deed::Jump { ms } => write!(f, "! the store's clock jumps by {ms} ms"),
        }
    }
}

impl fmt::Display for SetTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capacity, idle_ms } = self;
        write!(f, "template {KEYS}={capacity} idle {idle_ms} ms")
    }
}

impl fmt::Display for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "acquire {} {}", self.id, Permits(&self.permits))?;
        if let Some(owner) = self.owner {
            write!(f, " of o{owner}")?;
        }
        write!(f, " ttl {} wait {} ms", Ms(self.ttl_ms), self.wait_ms)?;
        if self.priority != 0 {
            write!(f, " priority {}", self.priority)?;
        }
        if let Some(ms) = self.gives_up_ms {
            write!(f, ", goes away after {ms} ms")?;
        }
        if self.insists > 0 {
            write!(f, ", asks {} times again", self.insists)?;
        }
        match self.then {
            Then::Dies => write!(f, ", then dies"),
            Then::Releases { after_ms } => write!(f, ", then releases after {after_ms} ms"),
            Then::Renews { every_ms, times } => {
                write!(f, ", then renews {times} times every {every_ms} ms")
            }
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ttl_ms,
            wait_ms,
            for_ms,
            ends,
            ..
        } = self;
        write!(
            f,
            "hold {} ttl {ttl_ms} ms wait {wait_ms} ms for {for_ms} ms, then {ends:?}",
            Permits(&self.permits)
        )?;
        match self.gives_up_ms {
            Some(ms) => write!(f, ", goes away after {ms} ms"),
            None => Ok(()),
        }
    }
}

impl Fault {
    /// How much longer the call takes by the fault.
    pub(super) fn lasts_ms(&self) -> u64 {
        match self {
            Fault::Before(_) | Fault::ReplyLost | Fault::CommitLost => 0,
            Fault::AppliedLate { ms } | Fault::Stuck { ms, .. } | Fault::Slow { ms } => *ms,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Before(kind) => write!(f, "{kind:?}, not applied"),
            Fault::ReplyLost => f.write_str("applied, the reply lost"),
            Fault::CommitLost => f.write_str("not applied, the reply lost"),
            Fault::AppliedLate { ms } => write!(f, "the reply lost, applied {ms} ms later"),
            Fault::Stuck { ms, is_applied } => {
                let not = if *is_applied { "" } else { "not " };
                write!(f, "stuck for {ms} ms, then {not}applied, the reply lost")
            }
            Fault::Slow { ms } => write!(f, "takes {ms} ms"),
        }
    }
}

struct Permits<'a>(&'a [(usize, u32)]);

impl fmt::Display for Permits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (name, count)) in self.0.iter().enumerate() {
            let space = if nth == 0 { "" } else { " " };
            write!(f, "{space}{}={count}", NAMES[*name])?;
        }
        Ok(())
    }
}

struct Ms(Option<u64>);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ms) => write!(f, "{ms} ms"),
            None => f.write_str("none"),
        }
    }
}
