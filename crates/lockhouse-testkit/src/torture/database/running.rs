//! Reads the kernel's data about a running server.

use std::fs;
use std::time::Duration;

use tokio::time::sleep;

/// How many connections a server takes: enough for all clients, and few enough for a greedy process to take all.
const CONNECTIONS: &str = "120";

/// Limits MySQL's binary logs, which would fill the disk in a long run.
const FEW_LOGS: [&str; 2] = ["--max-binlog-size=64M", "--binlog-expire-logs-seconds=60"];

/// Its command line, changed for a run.
pub(super) fn command_line(store: &str, id: u32) -> Vec<String> {
    let words = fs::read(format!("/proc/{id}/cmdline")).unwrap();
    let words = words
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words = words.map(|word| String::from_utf8(word.to_vec()).unwrap());
    let mut words: Vec<_> = words.map(|word| changed(&word)).collect();
    match store {
        "mysql" => words.extend(FEW_LOGS.map(str::to_owned)),
        "redis" | "valkey" => words.extend(["--maxclients", CONNECTIONS].map(str::to_owned)),
        _ => {}
    }
    if !words[0].contains('/') {
        let program = fs::read_link(format!("/proc/{id}/exe")).unwrap();
        // The name by which it was started: Redis is one program with several names.
        let program = program.with_file_name(&words[0]);
        words[0] = program.to_str().unwrap().to_owned();
    }
    words
}

/// A process and its children. PostgreSQL has children.
pub(super) fn family(parent: u32) -> Vec<u32> {
    let mut all = vec![parent];
    let Ok(folders) = fs::read_dir("/proc") else {
        return all;
    };
    for folder in folders.flatten() {
        let Ok(id) = folder.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = fs::read_to_string(folder.path().join("stat")).unwrap_or_default();
        let of = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(1));
        if of.and_then(|text| text.parse().ok()) == Some(parent) {
            all.push(id);
        }
    }
    all
}

pub(super) async fn until_gone(id: u32) {
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while is_alive() {
        sleep(Duration::from_millis(10)).await;
    }
}

/// A word of the command line, changed for fewer connections, and without TLS, as a proxy has to see a COMMIT.
fn changed(word: &str) -> String {
    match word {
        "ssl=on" => "ssl=off".to_owned(),
        _ => word.replace("connections=600", &format!("connections={CONNECTIONS}")),
    }
}

/// User and group of a process.
pub(super) fn owner_of(id: u32) -> Option<(u32, u32)> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((of("Uid:")?, of("Gid:")?))
}
