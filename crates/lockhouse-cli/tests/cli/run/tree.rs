//! A process that left the command's process group still belongs to its tree.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use crate::house::{House, Running, lockhouse, runs, until};
use lockhouse::Timestamp;
use nix::sys::signal::Signal;

/// Starts three processes that go on, deaf to SIGTERM: the command, one in another session, and one in
/// a third session whose parent has ended, as daemons do; the pids of all three.
const SCATTERED: &str = "trap '' TERM
    stay='echo $$; while :; do sleep 0.02; done'
    setsid sh -c \"$stay\" &
    setsid sh -c \"sh -c '$stay' &\"
    eval \"$stay\"";

fn scattered(house: &House, options: &[&str]) -> (Running, Vec<String>) {
    let mut run = house.run(options, SCATTERED);
    let pids: Vec<_> = (0..3).map(|_| run.line()).collect();
    assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");
    (run, pids)
}

fn end_in_time(house: &House, pids: &[String]) {
    until("the tree is stopped", || !pids.iter().any(|pid| runs(pid)));
    let now = Timestamp::now();
    let expires_at = house.expires_at("a");
    assert!(now < expires_at, "stopped {now}, held until {expires_at}");
}

/// consul #2022, #800: the shell was killed, what it had started lived on.
#[test]
fn a_daemon_is_stopped_before_the_hold_expires() {
    let mut house = House::behind_a_server();
    let (run, pids) = scattered(&house, &["--ttl", "2s"]);
    house.kill_server();
    end_in_time(&house, &pids);
    assert_eq!(run.end().code, 76);
}

#[test]
fn a_daemon_whose_run_is_killed_is_stopped_before_the_hold_expires() {
    let house = House::on_a_store();
    let (run, pids) = scattered(&house, &["--ttl", "2s"]);
    run.signal(Signal::SIGKILL);
    end_in_time(&house, &pids);
}

#[test]
fn a_daemon_whose_run_is_stopped_is_killed_before_the_hold_expires() {
    let house = House::on_a_store();
    let (run, pids) = scattered(&house, &["--ttl", "2s"]);
    run.signal(Signal::SIGSTOP);
    end_in_time(&house, &pids);
    run.signal(Signal::SIGCONT);
    assert_eq!(run.end().code, 76);
}

#[test]
fn a_daemon_gets_sigterm_when_the_hold_is_ended() {
    let house = House::on_a_store();
    let script = "setsid sh -c 'trap \"echo tidying up; exit\" TERM
                  echo up; while :; do sleep 0.02; done'";
    let mut run = house.run(&["--ttl", "3s", "--id", "job"], script);
    assert_eq!(run.line(), "up");
    house.text(&["release", "job"]);
    assert_eq!(run.line(), "tidying up");
    assert_eq!(run.end().code, 76);
}

/// One run in another: what the inner one's command left running is of the outer one's tree.
#[test]
fn a_daemon_that_an_inner_run_left_is_stopped_when_the_outer_one_is_killed() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    house.text(&["create", "b", "1"]);
    let script = "\"$LOCKHOUSE\" run -s b -- sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $!'
                  echo left; cat";
    let mut command = house.command(&["run", "-s", "a", "--ttl", "2s", "--", "sh", "-c", script]);
    command.env("LOCKHOUSE", lockhouse());
    let mut run = Running::new(command);
    let daemon = run.line();
    assert_eq!(run.line(), "left");
    assert!(runs(&daemon));
    run.signal(Signal::SIGKILL);
    end_in_time(&house, &[daemon]);
}

/// The guard does not wait for the hold's end, which is 1 h off. A process that ignores SIGTERM has at most 10 s.
#[test]
fn a_tree_whose_run_is_killed_is_gone_at_once() {
    let house = House::on_a_store();
    let mut run = house.run(
        &["--ttl", "1h"],
        "setsid sleep 1000 & echo $!; echo $$; wait",
    );
    let pids = [run.line(), run.line()];
    run.signal(Signal::SIGKILL);
    let begun = Instant::now();
    until("the tree is stopped", || !pids.iter().any(|pid| runs(pid)));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

/// `run` adopts the children of processes that ended, and must reap them when they end too.
#[test]
fn orphans_that_end_leave_nothing_behind() {
    let house = House::on_a_store();
    let mut run = house.run(
        &[],
        "for i in 1 2 3 4 5; do (sleep 0.1 &); done; echo up; cat",
    );
    assert_eq!(run.line(), "up");
    let children = format!("/proc/{0}/task/{0}/children", run.pid());
    until("only the guard and the command are left", || {
        let children = std::fs::read_to_string(&children).unwrap();
        children.split_whitespace().count() == 2
    });
    run.close_stdin();
    assert_eq!(run.end().code, 0);
}

/// A child that this process had before it became `run` does not belong to the command.
#[test]
fn processes_that_existed_before_are_left_alone() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let mut shell = std::process::Command::new("sh");
    let lockhouse = lockhouse();
    let script = format!(
        "sleep 1000 & echo $!; sleep 0.1
         exec {lockhouse} run -s a --id job --ttl 1s -- sh -c 'echo up; exec sleep 1000'"
    );
    shell
        .args(["-c", &script])
        .env("LOCKHOUSE_URL", house.url());
    let mut run = Running::new(shell);
    let before = run.line();
    assert_eq!(run.line(), "up");
    house.text(&["release", "job"]);
    let left = run.pid();
    until("it is stopped", || !runs(&left.to_string()));
    assert!(runs(&before));
    let before = nix::unistd::Pid::from_raw(before.parse().unwrap());
    nix::sys::signal::kill(before, Signal::SIGKILL).unwrap();
    assert_eq!(run.end().code, 76);
}
