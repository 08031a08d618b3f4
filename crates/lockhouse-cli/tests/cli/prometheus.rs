//! The files in `deploy/` for Prometheus and Grafana, tried on a real Prometheus.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::house::{House, until};
use serde_json::Value;

const PROMETHEUS: &str = "/usr/bin/prometheus";
const PROMTOOL: &str = "/usr/bin/promtool";

/// A Prometheus on loopback, which ends with this.
struct Prometheus {
    process: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    /// One that scrapes `server` each second, and has the alerts.
    fn start(folder: &Path, server: &str) -> Self {
        let alerts = deploy("prometheus/alerts.yml");
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs: [{{job_name: lockhouse, static_configs: [{{targets: ['{server}']}}]}}]\n",
            alerts.display()
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let process = Command::new(PROMETHEUS)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let prometheus = Self { process, address };
        until("Prometheus is ready", || {
            get(&prometheus.address, "/-/ready").is_some()
        });
        prometheus
    }

    /// The data of an answer of its API.
    fn ask(&self, path: &str) -> Value {
        let answer = get(&self.address, path).unwrap_or_else(|| panic!("no answer to {path}"));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// How many series `query` has now.
    fn series(&self, query: &str) -> usize {
        let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let data = self.ask(&format!("/api/v1/query?query={query}"));
        data["result"].as_array().unwrap().len()
    }
}

/// A file of `deploy/`.
fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// The body of a 200 at `address`.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // HTTP/1.0, so that the body is not in chunks, and the answer ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1)?.eq("200").then(|| body.to_owned())
}

/// Whether Prometheus is there, which a full run needs.
fn has_prometheus() -> bool {
    let is_there = Path::new(PROMETHEUS).exists() && Path::new(PROMTOOL).exists();
    let is_full = std::env::var_os("LOCKHOUSE_TEST_FULL").is_some();
    assert!(
        is_there || !is_full,
        "{PROMETHEUS} is missing; use scripts/test"
    );
    is_there
}

/// Has something of everything that metrics count.
fn use_it(house: &House) {
    for semaphore in ["busy", "free"] {
        house.text(&["create", semaphore, "1"]);
        house.text(&["acquire", "-s", semaphore, "--id", semaphore]);
    }
    house.text(&["release", "free"]);
    let refused = house.done(&["acquire", "-s", "busy"]);
    assert_eq!(refused.code, 75, "{refused:?}");
}

/// The queries of the dashboard, with its variables filled in.
fn queries_of_the_dashboard() -> Vec<String> {
    let dashboard = fs::read_to_string(deploy("grafana/lockhouse.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| {
        let query = target["expr"].as_str().unwrap();
        query
            .replace("$__rate_interval", "10s")
            .replace("$instance", ".*")
    });
    queries.collect()
}

#[test]
fn prometheus_reads_the_metrics_and_answers_every_query_of_the_dashboard() {
    if !has_prometheus() {
        return;
    }
    let house = House::behind_a_server();
    let server = house.url().strip_prefix("http://").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(folder.path(), server);
    until("it has scraped the server", || {
        prometheus.series("up{job=\"lockhouse\"} == 1") == 1
    });
    use_it(&house);
    let queries = queries_of_the_dashboard();
    assert!(queries.len() > 10, "{queries:?}");
    for query in &queries {
        until(query, || prometheus.series(query) > 0);
    }
    let rules = prometheus.ask("/api/v1/rules");
    let rules = rules["groups"][0]["rules"].as_array().unwrap().clone();
    assert!(rules.len() > 5, "{rules:?}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

/// A name that no server has would make an alert that never fires.
#[test]
fn alerts_and_dashboard_name_only_metrics_of_the_reference() {
    let reference = fs::read_to_string(deploy("../docs/reference/metrics.md")).unwrap();
    let documented: BTreeSet<&str> = metrics(&reference).collect();
    let alerts = fs::read_to_string(deploy("prometheus/alerts.yml")).unwrap();
    let queries = queries_of_the_dashboard().join("\n");
    for used in metrics(&alerts).chain(metrics(&queries)) {
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|part| used.strip_suffix(part))
            .unwrap_or(used);
        assert!(documented.contains(family), "{used} is not in metrics.md");
    }
}

/// The names of metrics in `text`.
fn metrics(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    words.filter(|word| word.starts_with("lockhouse_"))
}

#[test]
fn alerts_fire_when_they_should_and_not_before() {
    if !has_prometheus() {
        return;
    }
    let tested = Command::new(PROMTOOL)
        .args(["test", "rules"])
        .arg(deploy("prometheus/alerts.test.yml"))
        .output()
        .unwrap();
    assert!(tested.status.success(), "{tested:?}");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    if !has_prometheus() {
        return;
    }
    let house = House::behind_a_server();
    use_it(&house);
    let server = house.url().strip_prefix("http://").unwrap();
    let text = get(server, "/metrics").unwrap();
    let mut check = Command::new(PROMTOOL)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let checked = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.is_empty(), "{said}");
}
