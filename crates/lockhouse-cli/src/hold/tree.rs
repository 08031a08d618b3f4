//! All processes that a command started, whether they stayed in its process group or not.
//!
//! On Linux, `run` finds all its descendants: it is a subreaper, so it adopts the children of
//! processes that end, `setsid` or not. Once `run` itself is gone, a mark identifies them: a
//! variable in the command's environment, which its descendants inherit. Then a process is not
//! found if it has left the group and has another environment (`env -i`, or overwritten). On other
//! systems, processes that left the group are not found. Processes of another user cannot be
//! signalled.

use std::collections::HashSet;
use std::{env, fs};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid, getsid};
use tokio::process::Command;

/// The environment variable that is the mark.
const MARK: &str = "LOCKHOUSE_RUN";

/// How often the tree is scanned at most, since its processes may start others meanwhile.
const ROUNDS: usize = 100;

/// The processes that `run` started after its guard.
#[derive(Debug)]
pub(super) struct Tree {
    run: Pid,
    /// The leader of the group, which is a child of `run` too.
    guard: Pid,
    mark: String,
    /// Older processes are not part of the tree.
    since: u64,
}

/// A process, as Linux describes it.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    id: Pid,
    parent: Pid,
    group: Pid,
    began: u64,
    has_ended: bool,
}

impl Tree {
    pub(super) fn new(run: Pid, guard: Pid, mark: &str) -> Self {
        Self {
            run,
            guard,
            mark: mark.to_owned(),
            since: process(guard).map_or(0, |guard| guard.began),
        }
    }

    /// Signals the processes that left the group.
    pub(super) fn signal_outside(&self, signal: Signal) {
        for process in self.alive() {
            if process.group != self.guard {
                let _ = kill(process.id, signal);
            }
        }
    }

    /// Whether a process is left, or may be where the system does not tell.
    pub(super) fn is_alive(&self) -> bool {
        process(getpid()).is_none() || !self.alive().is_empty()
    }

    /// Kills all processes of the tree that this user may kill.
    pub(super) fn kill(&self) {
        for _ in 0..ROUNDS {
            let alive = self.alive();
            let killed = alive
                .iter()
                .map(|process| kill(process.id, Signal::SIGKILL));
            if killed.filter(Result::is_ok).count() == 0 {
                return;
            }
        }
    }

    fn alive(&self) -> Vec<Process> {
        let mut all = all();
        all.retain(|process| !process.has_ended && process.began >= self.since);
        let found = all
            .iter()
            .filter(|process| process.group == self.guard || self.has_mark(process));
        let mut tree: HashSet<_> = found.map(|process| process.id).collect();
        // Once `run` has ended, its number may belong to another process.
        if [getpid(), getppid()].contains(&self.run) {
            tree.insert(self.run);
        }
        loop {
            let found = tree.len();
            let children = all.iter().filter(|process| tree.contains(&process.parent));
            let children: Vec<_> = children.map(|process| process.id).collect();
            tree.extend(children);
            if tree.len() == found {
                break;
            }
        }
        all.retain(|process| {
            tree.contains(&process.id) && ![self.run, self.guard].contains(&process.id)
        });
        all
    }

    fn has_mark(&self, process: &Process) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", process.id)).unwrap_or_default();
        let variables = environment.split(|byte| *byte == 0);
        let mut marks = variables
            .filter_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))
            .flat_map(|marks| marks.split(|byte| *byte == b':'));
        marks.any(|mark| mark == self.mark.as_bytes())
    }
}

/// Marks `command`, and so all its descendants. Below another `run` it has that one's mark too.
pub(super) fn mark(command: &mut Command, mark: &str) {
    let mut marks = env::var_os(MARK).unwrap_or_default();
    if !marks.is_empty() {
        marks.push(":");
    }
    marks.push(mark);
    command.env(MARK, marks);
}

/// Makes this process adopt the orphaned descendants of its children.
pub(super) fn adopt() {
    // An old kernel does not support it.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Reaps the ended children of this process, except `others`.
pub(super) fn bury_all_but(others: &[Option<Pid>]) {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::wait::{WaitPidFlag, waitpid};

        let children = format!("/proc/self/task/{}/children", getpid());
        let children = fs::read_to_string(children).unwrap_or_default();
        let children = children.split_ascii_whitespace();
        for child in children.filter_map(|id| id.parse().ok().map(Pid::from_raw)) {
            if !others.contains(&Some(child)) {
                let _ = waitpid(child, Some(WaitPidFlag::WNOHANG));
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = others;
}

/// Whether some process can continue this process's group when it is stopped: a parent of one of
/// its members, in the same session but another group. The kernel does not stop a group without
/// one.
pub(super) fn has_shell() -> bool {
    let Some(mut member) = process(getpid()) else {
        return false;
    };
    let session = getsid(None);
    while let Some(parent) = process(member.parent) {
        if parent.group != member.group {
            return getsid(Some(parent.id)) == session;
        }
        member = parent;
    }
    false
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ids = names.filter_map(|name| name.parse().ok());
    ids.filter_map(|id| process(Pid::from_raw(id))).collect()
}

fn process(id: Pid) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    parse(id, &stat)
}

/// Parses `4711 (a name) S PARENT GROUP …`; the 22nd word is the start time.
fn parse(id: Pid, stat: &str) -> Option<Process> {
    // The name may have anything in it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let words: Vec<_> = rest.split_ascii_whitespace().collect();
    Some(Process {
        id,
        parent: Pid::from_raw(words.get(1)?.parse().ok()?),
        group: Pid::from_raw(words.get(2)?.parse().ok()?),
        began: words.get(19)?.parse().ok()?,
        has_ended: matches!(words.first(), Some(&("Z" | "X"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = "7 (a) Z 1 (b) S 3 5 5 0 -1 4194560 113 0 0 0 0 0 0 0 20 0 1 0 123456 2 3";
        let process = parse(Pid::from_raw(7), stat).unwrap();
        let [id, parent, group] = [7, 3, 5].map(Pid::from_raw);
        let expected = Process {
            id,
            parent,
            group,
            began: 123_456,
            has_ended: false,
        };
        assert_eq!(process, expected);
        assert_eq!(parse(id, "7 (a"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_found() {
        let this = process(getpid()).unwrap();
        assert_eq!(this.parent, getppid());
        assert!(!this.has_ended && all().iter().any(|process| process.id == this.id));
    }
}
