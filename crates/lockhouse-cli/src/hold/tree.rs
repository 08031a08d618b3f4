//! All processes that a command started, whether they stayed in its process group or not.
//!
//! On Linux, `run` finds all its descendants: it is a subreaper, so it adopts the children of
//! processes that end, `setsid` or not. Once `run` itself is gone, a mark identifies them: a
//! variable in the command's environment, which its descendants inherit. Then a process is not
//! found if it has left the group and has another environment (`env -i`, or overwritten). On other
//! systems, processes that left the group are not found. Processes of another user cannot be
//! signalled.

use std::collections::HashSet;
use std::time::Duration;
use std::{env, fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid, getsid};
use tokio::process::Command;

/// The environment variable that is the mark.
const MARK: &str = "LOCKHOUSE_RUN";

/// How often the tree is scanned at most, since its processes may start others meanwhile.
const ROUNDS: usize = 100;

/// The pause after a scan that left a process undecided.
const RESCAN_AFTER: Duration = Duration::from_millis(1);

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
    /// How many bytes its environment has. None until a program that it executes has one.
    environment: Option<usize>,
}

/// The processes of a tree that a scan found.
struct Scan {
    alive: Vec<Process>,
    /// Some process may belong to the tree or not: it was executing a program.
    is_undecided: bool,
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
        let mut signalled = HashSet::new();
        for _ in 0..ROUNDS {
            let scan = self.scan();
            for process in scan.alive {
                if process.group != self.guard && signalled.insert(process.id) {
                    let _ = kill(process.id, signal);
                }
            }
            if !scan.is_undecided {
                return;
            }
            thread::sleep(RESCAN_AFTER);
        }
    }

    /// Whether a process is left, or may be where the system does not tell.
    pub(super) fn is_alive(&self) -> bool {
        let is_left = |scan: Scan| scan.is_undecided || !scan.alive.is_empty();
        process(getpid()).is_none() || is_left(self.scan())
    }

    /// Kills all processes of the tree that this user may kill.
    pub(super) fn kill(&self) {
        for _ in 0..ROUNDS {
            let scan = self.scan();
            let killed = scan
                .alive
                .iter()
                .map(|process| kill(process.id, Signal::SIGKILL));
            let any = killed.filter(Result::is_ok).count() > 0;
            if scan.is_undecided {
                thread::sleep(RESCAN_AFTER);
            } else if !any {
                return;
            }
        }
    }

    fn scan(&self) -> Scan {
        let mut all = all();
        all.retain(|process| !process.has_ended && process.began >= self.since);
        let (mut tree, mut undecided) = (HashSet::new(), Vec::new());
        for process in &all {
            if process.group == self.guard {
                tree.insert(process.id);
                continue;
            }
            match self.has_mark(process) {
                Some(false) => {}
                Some(true) => _ = tree.insert(process.id),
                None => undecided.push(process.id),
            }
        }
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
        Scan {
            alive: all,
            is_undecided: undecided.iter().any(|id| !tree.contains(id)),
        }
    }

    /// None if the process executed a program meanwhile: then the kernel shows the environment of
    /// neither the old nor the new one, or the beginning of it.
    fn has_mark(&self, process: &Process) -> Option<bool> {
        let Ok(environment) = fs::read(format!("/proc/{}/environ", process.id)) else {
            return Some(false); // it has ended, or is another user's
        };
        let variables = environment.split(|byte| *byte == 0);
        let mut marks = variables
            .filter_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))
            .flat_map(|marks| marks.split(|byte| *byte == b':'));
        let has_mark = marks.any(|mark| mark == self.mark.as_bytes());
        (has_mark || process.environment == Some(environment.len())).then_some(has_mark)
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

/// Parses `4711 (a name) S PARENT GROUP …`; the 22nd word is the start time, the 23rd the size of
/// its memory, the 50th and 51st where its environment begins and ends in it (proc_pid_stat(5)).
fn parse(id: Pid, stat: &str) -> Option<Process> {
    // The name may have anything in it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let words: Vec<_> = rest.split_ascii_whitespace().collect();
    let number = |word: usize| words.get(word - 3)?.parse::<u64>().ok();
    let environment = match (number(23), number(50), number(51)) {
        (Some(0), ..) => Some(0), // a thread of the kernel
        (_, Some(begin @ 1..), Some(end)) => end.checked_sub(begin).and_then(|n| n.try_into().ok()),
        _ => None,
    };
    Some(Process {
        id,
        parent: Pid::from_raw(words.get(1)?.parse().ok()?),
        group: Pid::from_raw(words.get(2)?.parse().ok()?),
        began: number(22)?,
        has_ended: matches!(words.first(), Some(&("Z" | "X"))),
        environment,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = "7 (a) Z 1 (b) S 3 5 5 0 -1 4194560 113 0 0 0 0 0 0 0 20 0 1 0 123456 4096 3 4 \
                    5 6 7 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 8 9 10 11 12 100 140 0";
        let process = parse(Pid::from_raw(7), stat).unwrap();
        let [id, parent, group] = [7, 3, 5].map(Pid::from_raw);
        let expected = Process {
            id,
            parent,
            group,
            began: 123_456,
            has_ended: false,
            environment: Some(40),
        };
        assert_eq!(process, expected);
        assert_eq!(parse(id, "7 (a"), None);
        let environment = |stat: &str| parse(id, stat).unwrap().environment;
        assert_eq!(environment(&stat.replace("100 140", "0 0")), None);
        assert_eq!(environment(&stat.replace("100 140", "100 0")), None);
        assert_eq!(environment(&stat.replace("4096", "0")), Some(0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_found() {
        let this = process(getpid()).unwrap();
        assert_eq!(this.parent, getppid());
        assert!(!this.has_ended && all().iter().any(|process| process.id == this.id));
    }

    /// This one executes itself, again and again: while it does, it has no environment.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_executes_another_program_is_found() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;

        /// Ended by the end of the test.
        struct Child(std::process::Child);

        impl Drop for Child {
            fn drop(&mut self) {
                self.0.kill().unwrap();
                self.0.wait().unwrap();
            }
        }

        let start = |command: &mut Command| Child(command.process_group(0).spawn().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("again");
        fs::write(&script, "exec sh \"$0\"").unwrap();
        let guard = start(Command::new("sleep").arg("1000"));
        let mut again = Command::new("sh");
        let _again = start(again.arg(&script).env(MARK, "this-run"));
        let guard = Pid::from_raw(guard.0.id().cast_signed());
        let tree = Tree::new(Pid::from_raw(i32::MAX), guard, "this-run");
        let missed = (0..1000).filter(|_| !tree.is_alive()).count();
        assert_eq!(missed, 0);
    }
}
