//! The package: its manual pages, its unit for systemd, and the messages by which the server tells systemd its state.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::house::House;
use nix::sys::signal::Signal;

/// The next message that is not one of the watchdog's.
fn told(socket: &UnixDatagram) -> String {
    loop {
        let message = next(socket);
        if message != "WATCHDOG=1" {
            return message;
        }
    }
}

fn next(socket: &UnixDatagram) -> String {
    let mut message = [0; 1024];
    let length = socket.recv(&mut message).expect("a message in time");
    String::from_utf8_lossy(&message[..length])
        .trim_end()
        .to_owned()
}

#[test]
fn the_server_tells_systemd_that_it_is_ready_runs_reloads_and_stops() {
    let house = House::on_a_store();
    let path = house.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut serve = house.command(&["serve", "--listen", "127.0.0.1:0"]);
    serve
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000");
    let mut server = crate::house::Running::new(serve);
    assert_eq!(told(&socket), "READY=1");
    assert!(server.line().contains("http://127.0.0.1:"));
    for _ in 0..3 {
        assert_eq!(next(&socket), "WATCHDOG=1");
    }
    server.signal(Signal::SIGHUP);
    let reloading = told(&socket);
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(told(&socket), "READY=1");
    server.signal(Signal::SIGTERM);
    assert_eq!(told(&socket), "STOPPING=1");
    assert_eq!(server.end().code, 0);
}

#[test]
fn every_command_has_a_manual_page() {
    let house = House::on_a_store();
    let folder = house.path("man");
    house.text(&["man", folder.to_str().unwrap()]);
    let page = |name: &str| fs::read_to_string(folder.join(name));
    let all = page("lockhouse.1").unwrap();
    assert!(all.contains(".TH lockhouse 1"), "{all}");
    let help = house.text(&["--help"]);
    let commands = help.split("\nCommands:\n").nth(1).unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands: Vec<_> = commands
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(commands.contains(&"run"), "{commands:?}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let page = page(&format!("lockhouse-{command}.1"));
        assert!(page.is_ok_and(|page| page.len() > 100), "{command}");
    }
}

/// A misspelled line of a unit is passed over by systemd, with whatever it should have protected.
#[test]
fn systemd_understands_every_line_of_the_unit() {
    let systemd = Path::new("/usr/bin/systemd-analyze");
    let is_full = std::env::var_os("LOCKHOUSE_TEST_FULL").is_some();
    assert!(
        systemd.exists() || !is_full,
        "systemd-analyze is missing; use scripts/test"
    );
    if !systemd.exists() {
        return;
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/lockhouse.service");
    // Not that of a package that may be installed here.
    let unit_here = fs::read_to_string(unit)
        .unwrap()
        .replace("/usr/bin/lockhouse", "/bin/true");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockhouse.service");
    fs::write(&file, unit_here).unwrap();
    let checked = Command::new(systemd)
        .args(["verify", "--man=no"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        checked.status.success() && checked.stderr.is_empty(),
        "{checked:?}"
    );
    let exposure = Command::new(systemd)
        .args(["security", "--offline=true", "--threshold=15"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(exposure.status.success(), "{exposure:?}");
}
