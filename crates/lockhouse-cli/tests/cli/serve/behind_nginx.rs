//! Two servers with TLS and tokens behind Debian's nginx, as `docs/guides/run-a-server.md` has it.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::tls::{self, Ca, SERVER_NAME};
use crate::house::{Done, House, Running, until};
use crate::reader::{free_port, in_text, root};
use nix::sys::signal::Signal;

const PROGRAM: &str = "/usr/sbin/nginx";
const GUIDE: &str = "docs/guides/run-a-server.md";
const WAITERS: usize = 4;

#[test]
fn clients_behind_nginx_notice_nothing_of_a_killed_server() {
    if !is_installed() {
        return;
    }
    let house = House::on_a_store();
    Ca::new().issue(&house, "ca.pem");
    house.text(&["create", "a", "1"]);
    let token = house.text(&["token", "create", "ci", "--grant", "hold:a"]);
    let servers = [(); 2].map(|()| tls::serve(&house, "0.0.0.0:0", &["--behind-proxy"]));
    let nginx = Nginx::before(&house, servers.each_ref().map(|(_, url)| url.as_str()));
    let run = |options: &[&str], script: &str| -> Running {
        let arguments = [&["run", "-s", "a"], options, &["--", "sh", "-c", script]].concat();
        let mut command = house.command(&arguments);
        command
            .env("LOCKHOUSE_URL", format!("https://127.0.0.1:{}", nginx.port))
            .env("LOCKHOUSE_CA_FILE", house.path("ca.pem"))
            .env("LOCKHOUSE_TOKEN", token.trim());
        Running::new(command)
    };
    let waiting = || house.json(&["show", "a"])["waiting"].as_u64();
    let mut holder = run(&["--ttl", "3s"], "echo up; cat");
    assert_eq!(holder.line(), "up");
    let served = house.path("served");
    let waiters: Vec<Running> = (0..WAITERS)
        .map(|waiter| {
            let script = format!("echo {waiter} >> {}", served.display());
            let running = run(&[], &script);
            until("it waits", || waiting() == Some(waiter as u64 + 1));
            running
        })
        .collect();

    // nginx gives each server every second connection, so waiters are lost with this one.
    servers[0].0.signal(Signal::SIGKILL);
    // Longer than the TTL, and longer than a lost waiter's place is kept.
    thread::sleep(Duration::from_secs(7));
    assert_eq!(waiting(), Some(WAITERS as u64));
    holder.close_stdin();
    for running in [holder].into_iter().chain(waiters) {
        let Done { code, stderr, .. } = running.end();
        assert_eq!((code, &*stderr), (0, ""));
    }
    assert_eq!(fs::read_to_string(served).unwrap(), "0\n1\n2\n3\n");
}

/// Stopped when this is dropped.
struct Nginx {
    process: Child,
    port: u16,
}

impl Nginx {
    /// With the guide's settings, on a free port and with the files of `house`.
    fn before(house: &House, servers: [&str; 2]) -> Self {
        let guide = fs::read_to_string(root().join(GUIDE)).unwrap();
        let printed = in_text("nginx", &guide);
        let [settings] = &printed[..] else {
            panic!("{GUIDE} has {} blocks of nginx", printed.len());
        };
        let port = free_port();
        let path = |name: &str| house.path(name).display().to_string();
        let mut settings = settings.clone();
        for (of_the_guide, here) in [
            ("10.0.0.1:7117", servers[0].trim_start_matches("https://")),
            ("10.0.0.2:7117", servers[1].trim_start_matches("https://")),
            ("listen 443", &format!("listen 127.0.0.1:{port}")),
            ("/etc/nginx/lockhouse.pem", &path("cert.pem")),
            ("/etc/nginx/lockhouse.key", &path("key.pem")),
            ("/etc/nginx/ca.pem", &path("ca.pem")),
            ("lockhouse.internal", SERVER_NAME),
        ] {
            assert!(settings.contains(of_the_guide), "{of_the_guide}");
            settings = settings.replace(of_the_guide, here);
        }
        let folder = house.path("nginx");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("nginx.conf"), around(&settings)).unwrap();
        let process = start(&folder);
        let nginx = Self { process, port };
        until("nginx listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(folder: &Path) -> Child {
    let mut command = Command::new(PROGRAM);
    command.arg("-p").arg(folder);
    command.args(["-e", "error.log", "-c", "nginx.conf"]);
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// One process, in the foreground, with all its files in its folder.
fn around(settings: &str) -> String {
    format!(
        "daemon off;
master_process off;
pid nginx.pid;
events {{ }}
http {{
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  {settings}
}}
"
    )
}

/// Whether nginx is there.
///
/// # Panics
/// If it is missing and `LOCKHOUSE_TEST_FULL` is set.
fn is_installed() -> bool {
    if Path::new(PROGRAM).exists() {
        return true;
    }
    assert!(
        std::env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
        "nginx is not installed, and a full run leaves nothing out; use scripts/test"
    );
    // Past the test harness's capture, so that it is seen.
    let left_out = b"left out: clients behind nginx (nginx is not installed)\n";
    let _ = std::io::stderr().write_all(left_out);
    false
}
