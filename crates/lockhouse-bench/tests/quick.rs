//! The benchmark runs, from the databases to the page, with everything small and short.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use lockhouse_bench::suite::{Report, Verdict};
use lockhouse_testkit::place::server_url;

const BENCH: &str = env!("CARGO_BIN_EXE_lockhouse-bench");

/// A run without the servers of the environment, but for what `options` say.
fn run(options: &[&str]) -> Output {
    let mut command = Command::new(BENCH);
    for name in ["MYSQL", "MARIADB", "POSTGRES", "REDIS", "ETCD"] {
        command.env_remove(format!("LOCKHOUSE_TEST_{name}_URL"));
    }
    command.args(options);
    if let (["suite", ..], Some(program)) = (options, env::var_os("LOCKHOUSE_TEST_BINARY")) {
        command.arg("--lockhouse").arg(program);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn suite(folder: &Path, options: &[&str]) -> (PathBuf, Report) {
    let file = folder.join("found.json");
    let to = ["suite", "--quick", "--to", file.to_str().unwrap()];
    run(&[&to, options].concat());
    let report = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    (file, report)
}

/// The contest was held, by all its sides, and nobody saw an error.
fn assert_held(report: &Report, contest: &str, sides: &[&str]) {
    for side in sides {
        let measured = report.side(contest, side).expect(side);
        assert_eq!(measured.failed, None, "{contest}, {side}");
        let round = measured.rounds.first().expect(side);
        assert!(round.pairs > 0, "{contest}, {side}: {round:?}");
        assert!(round.acquire.p50_us > 0.0 && round.acquire.p50_us <= round.acquire.p999_us);
        assert!(
            round.errors.is_empty(),
            "{contest}, {side}: {:?}",
            round.errors
        );
    }
}

#[test]
fn a_quick_suite_runs_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let (_, report) = suite(folder.path(), &["--only", "sqlite,noisy-file"]);
    assert_held(&report, "sqlite-64", &["lockhouse", "single"]);
    assert_held(&report, "noisy-file", &["without", "with", "apart"]);
    let judged = report
        .rows
        .iter()
        .filter(|row| row.verdict == Verdict::NotJudged);
    let values: Vec<_> = judged.map(|row| row.value).collect();
    assert!(
        matches!(values[..], [Some(ratio), Some(with), Some(apart)]
            if ratio > 0.0 && with > 0.0 && apart > 0.0),
        "{values:?}"
    );
}

#[test]
fn a_quick_suite_runs_on_mysql_and_makes_a_page() {
    let Some(mysql) = server_url("LOCKHOUSE_TEST_MYSQL_URL") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (found, report) = suite(
        folder.path(),
        &[
            "--mysql",
            &mysql,
            "--only",
            "hot,flat,orders,two,slots,noisy-mysql,line-mysql",
        ],
    );
    for contest in ["hot-1", "hot-8", "hot-64", "hot-512", "orders"] {
        assert_held(&report, contest, &["lockhouse", "article"]);
    }
    assert_held(&report, "hot-1", &["floor"]);
    assert_held(&report, "flat", &["empty", "full"]);
    assert_held(&report, "slots", &["plain", "slotted"]);
    assert_held(&report, "noisy-mysql", &["without", "with", "apart"]);
    // The program is beside this one where the whole workspace is built.
    let beside = Path::new(BENCH).with_file_name("lockhouse");
    if env::var_os("LOCKHOUSE_TEST_BINARY").is_some() || beside.exists() {
        assert_held(&report, "hot-64", &["http"]);
        assert_held(&report, "two", &["one", "two"]);
        for contest in ["line-mysql-1", "line-mysql-20"] {
            assert_held(&report, contest, &["one", "two", "four"]);
        }
    } else {
        let two = report.side("two", "two").unwrap().failed.as_deref();
        assert!(two.unwrap().contains("no lockhouse program"));
    }
    let redis = report.side("hot-8", "redis").unwrap();
    assert!(redis.failed.as_deref().unwrap().contains("was not given"));
    assert_page(folder.path(), &found);
}

fn assert_page(folder: &Path, found: &Path) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
    fs::copy(page, folder.join("benchmarks.md")).unwrap();
    let docs = ["--docs", folder.to_str().unwrap()];
    run(&[&["report", found.to_str().unwrap()], &docs[..]].concat());
    let page = fs::read_to_string(folder.join("benchmarks.md")).unwrap();
    assert!(page.contains("quick run"), "{page}");
    assert!(
        page.contains("`innodb_flush_log_at_trx_commit=1`"),
        "{page}"
    );
    let plot = fs::read_to_string(folder.join("benchmarks.svg")).unwrap();
    assert!(plot.contains("Lockhouse on MySQL"), "{plot}");
    assert!(!plot.contains("Redis"), "what was left out is not drawn");
}

#[test]
fn one_contender_alone_is_measured_as_json() {
    let memory = ["run", "--url", "memory:", "--clients", "2", "-o", "json"];
    let short = ["--warm-up", "0.05", "--seconds", "0.2", "--capacity", "1"];
    let output = run(&[&memory[..], &short].concat());
    let measured: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(measured["pairs"].as_u64().unwrap() > 0, "{measured}");
    assert_eq!(measured["errors"], serde_json::json!({}));
}

/// The clients of two engines want one permit, so that it goes from one engine to the other.
#[test]
fn a_permit_is_idle_for_a_moment_when_another_engine_is_next() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("permits.db").display());
    let two = ["run", "--url", &url, "--engines", "2", "--clients", "4"];
    let short = ["--capacity", "1", "--hold-ms", "1", "-o", "json"];
    let time = ["--warm-up", "0.5", "--seconds", "1.5"];
    let output = run(&[&two[..], &short, &time].concat());
    let measured: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        measured["idle"]["p50_us"].as_f64().unwrap() > 0.0,
        "{measured}"
    );
    assert_eq!(measured["errors"], serde_json::json!({}));
}
