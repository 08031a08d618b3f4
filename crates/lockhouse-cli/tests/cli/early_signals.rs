//! A signal that comes while a command begins to catch signals.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::house::{House, Running};

/// Says so when its process begins to catch SIGTERM, and takes its time, as on a busy machine.
const SLOW: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    int (*real)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
    int answer = real(number, action, before);
    if (number == SIGTERM && action && action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) {
        if (write(2, "catches\n", 8) < 0) return -1;
        usleep(300000);
    }
    return answer;
}
"#;

#[test]
fn a_signal_while_a_command_begins_to_catch_signals_is_not_lost() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    house.text(&["acquire", "-s", "a", "--id", "held"]);
    let (source, library) = (house.path("slow.c"), house.path("slow.so"));
    fs::write(&source, SLOW).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(
        compiler
            .arg(&source)
            .arg("-ldl")
            .status()
            .unwrap()
            .success()
    );
    for args in [
        &["run", "-s", "a", "--", "sleep", "1000"][..],
        &["acquire", "-s", "a", "--wait", "1h"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        let mut command = house.command(args);
        let mut running = Running::new({
            command.env("LD_PRELOAD", &library);
            command
        });
        assert_eq!(running.log_line(), "catches\n", "{args:?}");
        running.signal(Signal::SIGTERM);
        assert_eq!(running.end().code, 143, "{args:?}");
    }
}
