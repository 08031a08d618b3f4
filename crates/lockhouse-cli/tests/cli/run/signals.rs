//! Signals to `run`: handed on to its command, or the end of a wait.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::house::{House, Running, lockhouse, runs, until};
use nix::sys::signal::Signal;

#[test]
fn signals_are_passed_on_to_the_command() {
    let house = House::on_a_store();
    let script = "for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo $s\" $s; done
                  echo up
                  while :; do sleep 0.02; done";
    let mut run = house.run(&[], script);
    assert_eq!(run.line(), "up");
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ] {
        run.signal(signal);
        assert_eq!(format!("SIG{}", run.line()), signal.as_str());
    }
}

/// As under `nohup`.
#[test]
fn signals_ignored_at_the_start_stay_ignored() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let script = "trap '' HUP; exec \"$LOCKHOUSE\" run -s a -- sh -c 'echo up; read line'";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .env("LOCKHOUSE", lockhouse())
        .env("LOCKHOUSE_URL", house.url());
    let mut run = Running::new(shell);
    assert_eq!(run.line(), "up");
    run.signal(Signal::SIGHUP);
    run.write("go\n");
    assert_eq!(run.end().code, 0);
}

/// consul #2022: the shell was killed, what it had started lived on.
#[test]
fn processes_started_by_the_command_end_with_it() {
    let house = House::on_a_store();
    let mut run = house.run(&[], "sleep 1000 >/dev/null 2>&1 & echo $!; wait");
    let grandchild = run.line();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.end().code, 143);
    until("the grandchild ends", || !runs(&grandchild));
    assert_eq!(house.in_use("a"), 0);
}

#[test]
fn user_signals_reach_only_the_command() {
    let house = House::on_a_store();
    let script = "trap 'echo got it' USR1
                  sleep 1000 >/dev/null 2>&1 & echo $!
                  while kill -0 $!; do wait; done";
    let mut run = house.run(&[], script);
    let grandchild = run.line();
    // Until then it is the shell still, and has its trap.
    let program = format!("/proc/{grandchild}/comm");
    until("it is a sleep", || {
        std::fs::read_to_string(&program).is_ok_and(|name| name == "sleep\n")
    });
    for _ in 0..5 {
        run.signal(Signal::SIGUSR1);
        assert_eq!(run.line(), "got it");
        assert!(runs(&grandchild));
    }
    run.signal(Signal::SIGTERM);
    until("the grandchild ends", || !runs(&grandchild));
}

/// A stopped process gets a signal only when it goes on.
#[test]
fn a_stopped_command_ends_when_it_is_asked_to() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let house = House::on_a_store();
        let mut run = house.run(&[], "echo $$; kill -STOP $$");
        let state = format!("/proc/{}/stat", run.line());
        until("it is stopped", || {
            std::fs::read_to_string(&state).is_ok_and(|stat| stat.contains(") T "))
        });
        run.signal(signal);
        assert_eq!(run.end().code, 128 + signal as i32);
        assert_eq!(house.in_use("a"), 0);
    }
}

#[test]
fn a_command_may_take_its_time_to_end() {
    let house = House::on_a_store();
    let script = "trap 'echo ending; read go; exit 3' TERM; echo up; while :; do sleep 0.02; done";
    let mut run = house.run(&[], script);
    assert_eq!(run.line(), "up");
    run.signal(Signal::SIGTERM);
    assert_eq!(run.line(), "ending");
    assert_eq!(
        house.in_use("a"),
        1,
        "it is held until the command has ended"
    );
    run.write("go\n");
    assert_eq!(run.end().code, 3);
    assert_eq!(house.in_use("a"), 0);
}

/// consul #800, #1210: Ctrl-C while it waited, and the command was started.
#[test]
fn a_signal_ends_the_wait_for_a_permit() {
    let house = House::behind_a_server();
    house.text(&["create", "a", "1"]);
    for (verb, signal) in [
        ("run", Signal::SIGTERM),
        ("run", Signal::SIGINT),
        ("acquire", Signal::SIGTERM),
    ] {
        let holder = format!("holder-{verb}-{signal}");
        house.text(&["acquire", "-s", "a", "--id", &holder]);
        let started = house.path(verb);
        let command = ["--", "touch", started.to_str().unwrap()];
        let command = if verb == "run" { &command[..] } else { &[] };
        let waiting = house.start(&[&[verb, "-s", "a", "--wait", "1h"], command].concat());
        until("it waits", || house.json(&["show", "a"])["waiting"] == 1);
        waiting.signal(signal);
        let done = waiting.end();
        let code = 128 + signal as i32;
        assert_eq!((done.code, &*done.stderr), (code, ""), "{verb}");
        until("nobody waits", || {
            house.json(&["show", "a"])["waiting"] == 0
        });
        house.text(&["release", &holder]);
        assert_eq!(house.in_use("a"), 0, "{verb}");
        assert!(!started.exists());
    }
}

#[test]
fn an_id_whose_wait_was_interrupted_can_be_used_again() {
    let house = House::behind_a_server();
    house.text(&["create", "a", "1"]);
    house.text(&["acquire", "-s", "a", "--id", "holder"]);
    let run = house.start(&["run", "-s", "a", "--id", "job", "--", "true"]);
    until("it waits", || house.json(&["show", "a"])["waiting"] == 1);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.end().code, 143);
    house.text(&["release", "holder"]);
    house.text(&["run", "-s", "a", "--id", "job", "--", "true"]);
}

/// consul #1210, at the very moment: a run that could not look finds both.
#[test]
fn a_signal_that_comes_with_the_grant_wins() {
    let house = House::behind_a_server();
    house.text(&["create", "a", "1"]);
    for round in 0..5 {
        let holder = format!("{round}");
        house.text(&["acquire", "-s", "a", "--id", &holder]);
        let started = house.path("started");
        let run = ["run", "-s", "a", "--", "touch", started.to_str().unwrap()];
        let run = house.start(&run);
        until("it waits", || house.json(&["show", "a"])["waiting"] == 1);
        run.signal(Signal::SIGSTOP);
        house.text(&["release", &holder]);
        until("it is granted", || house.in_use("a") == 1);
        run.signal(Signal::SIGTERM);
        run.signal(Signal::SIGCONT);
        assert_eq!(run.end().code, 143);
        assert!(!started.exists());
        assert_eq!(house.in_use("a"), 0);
    }
}

/// consul #1210: the command started after the signal to end. P10: nothing leaks.
#[test]
fn a_signal_at_any_moment_leaves_nothing_held() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "1"]);
        for round in 0..40 {
            let started = house.path(&format!("started-{round}"));
            let script = format!("echo $$ > {}; exec sleep 1000", started.display());
            let run = house.start(&["run", "-s", "a", "--", "sh", "-c", &script]);
            // From before it listens until well after the command runs.
            let at = Instant::now() + Duration::from_micros(500 * round);
            while Instant::now() < at {
                std::hint::spin_loop();
            }
            run.signal(Signal::SIGTERM);
            assert_eq!(run.end().code, 143, "{round}");
            assert_eq!(house.in_use("a"), 0, "{round}");
            let pid = std::fs::read_to_string(&started).unwrap_or_default();
            assert!(!runs(pid.trim()), "{round}");
        }
    }
}

#[test]
fn a_signal_in_a_queue_at_any_moment_leaves_nothing_held() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        house.text(&["create", "a", "1"]);
        for round in 0..20 {
            house.text(&["acquire", "-s", "a", "--id", &format!("{round}")]);
            let run = house.start(&["run", "-s", "a", "--", "sleep", "1000"]);
            let release = house.start(&["release", &format!("{round}")]);
            let at = Instant::now() + Duration::from_millis(2 * round);
            while Instant::now() < at {
                std::hint::spin_loop();
            }
            // Service managers and terminals send two; the second finds it giving up what it asked for.
            run.signal(Signal::SIGTERM);
            std::thread::sleep(Duration::from_micros(250 * round));
            run.signal(Signal::SIGTERM);
            assert_eq!(run.end().code, 143, "{round}");
            assert_eq!(release.end().code, 0, "{round}");
            assert_eq!(house.in_use("a"), 0, "{round}");
        }
    }
}

/// The command decides how to handle the first. It takes its time for that, as two that come at
/// once are one.
#[test]
fn a_second_ctrl_c_kills_processes_that_survive_the_first() {
    let house = House::on_a_store();
    let script = "trap 'sleep 0.2; echo not yet' INT; trap '' TERM
                  setsid sh -c 'trap \"\" INT TERM; while :; do sleep 0.02; done' & echo $!
                  while :; do sleep 0.02; done";
    let mut run = house.run(&[], script);
    let left_the_group = run.line();
    run.signal(Signal::SIGINT);
    assert_eq!(run.line(), "not yet");
    assert_eq!(house.in_use("a"), 1);
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().code, 137);
    until("all of the tree is gone", || !runs(&left_the_group));
    assert_eq!(house.in_use("a"), 0);
}
