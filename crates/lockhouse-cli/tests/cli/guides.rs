//! The pages in `docs/` do what they say: the `sh` blocks of each page run here, as one script, in a fresh state folder.
//!
//! A block `text output` has lines that the script prints; `…` in it stands for any text. Three things differ from a
//! reader's machine: `cargo install` does nothing, as the program is there; the port is a free one; and programs that a
//! script leaves running are ended with it. Each page has its own folder, so that the files it writes are removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::{process, thread};

use crate::reader::{Home, free_port, in_text, root};
use lockhouse_testkit::place;

#[test]
fn every_page_in_docs_works_as_printed() {
    let mut pages = Vec::new();
    markdown(&root().join("docs"), &mut pages);
    pages.sort();
    let run: Vec<_> = pages
        .iter()
        .map(|page| (page, fs::read_to_string(page).unwrap()))
        .filter(|(_, text)| !in_text("sh", text).is_empty())
        .collect();
    assert!(run.len() >= 3, "{} pages have commands", run.len());
    let failures: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = run
            .iter()
            .map(|(page, text)| (page, scope.spawn(|| follow(text, None))))
            .collect();
        runs.into_iter()
            .filter_map(|(page, run)| {
                Some(format!(
                    "{}: {}",
                    page.display(),
                    run.join().unwrap().err()?
                ))
            })
            .collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_per_customer_and_slots_work_on_mysql_as_printed() {
    for page in ["limit-per-customer.md", "share-gpus.md"] {
        let Some(place) = place::mysql().await else {
            return;
        };
        let text = fs::read_to_string(root().join("docs/guides").join(page)).unwrap();
        let followed = follow(&text, Some(place.url()));
        assert!(followed.is_ok(), "{page}: {}", followed.unwrap_err());
        place.clear().await;
    }
}

/// The blocks `sh redis`, with the lines of `text redis output`. The keys are this run's alone.
#[test]
fn a_gate_in_redis_works_as_printed() {
    let Some(redis) = place::server_url("LOCKHOUSE_TEST_REDIS_URL") else {
        return;
    };
    let text = fs::read_to_string(root().join("docs/guides/protect-a-resource.md")).unwrap();
    let [gate, report] = ["gate:report", "report"].map(|key| format!("{key}-{}", process::id()));
    let text = text
        .replace("```sh redis", "```sh")
        .replace("```text redis output", "```text output")
        .replace("gate:report report ,", &format!("{gate} {report} ,"))
        .replace("DEL gate:report", &format!("DEL {gate}"))
        .replace("GET report", &format!("GET {report}"));
    assert_eq!(text.matches(&gate).count(), 2);
    assert_eq!(text.matches(&format!("GET {report}")).count(), 2);
    let redis_cli = |arguments: &[&str]| {
        let mut redis_cli = process::Command::new("redis-cli");
        redis_cli
            .args(["-u", &redis])
            .args(arguments)
            .output()
            .unwrap()
    };
    let followed = follow_with(&text, None, |home| {
        let path = std::env::var("PATH").unwrap();
        home.program(
            "redis-cli",
            &format!("PATH={path} exec redis-cli -u {redis} \"$@\""),
        );
    });
    redis_cli(&["DEL", &gate, &report]);
    assert!(followed.is_ok(), "{}", followed.unwrap_err());
}

#[test]
fn a_page_that_does_not_work_is_found() {
    for (text, problem) in [
        ("```sh\nlockhouse list\nfalse\n```\n", "failed"),
        (
            "```sh\necho one\n```\n```text output\ntwo\n```\n",
            "does not print",
        ),
    ] {
        let found = follow(text, None).unwrap_err();
        assert!(found.contains(problem), "{found}");
    }
    let works = "```sh\necho fence 7 of gpu\n```\n```text output\nfence … of gpu\n```\n";
    follow(works, None).unwrap();
}

/// Runs what a page says on the store at `url`, or on the file that is used without one, and looks for what the page says
/// that is printed.
fn follow(text: &str, url: Option<&str>) -> Result<(), String> {
    follow_with(text, url, |_| {})
}

/// The same, with what else the reader has.
fn follow_with(text: &str, url: Option<&str>, has: impl FnOnce(&Home)) -> Result<(), String> {
    let home = Home::new();
    install(&home);
    has(&home);
    let commands = in_text("sh", text).join("\n");
    let commands = commands.replace("7117", &free_port().to_string());
    let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}");
    let mut bash = home.bash(&script);
    bash.current_dir(home.folder());
    bash.envs(url.map(|url| ("LOCKHOUSE_URL", url)));
    let output = bash.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if !output.status.success() {
        return Err(format!("failed with {}\n{said}", output.status));
    }
    for line in in_text("text output", text)
        .iter()
        .flat_map(|block| block.lines())
    {
        if !said.lines().any(|printed| is_like(printed, line)) {
            return Err(format!("does not print {line:?}\n{said}"));
        }
    }
    Ok(())
}

/// Whether `printed` has the parts of `line` between its `…`, in order.
fn is_like(printed: &str, line: &str) -> bool {
    let mut rest = Some(printed);
    for part in line.split('…') {
        rest = rest.and_then(|rest| Some(rest.split_once(part.trim())?.1));
    }
    rest.is_some()
}

/// The program under test, and a `cargo` that has nothing to do.
fn install(home: &Home) {
    home.program("cargo", "exit 0");
    home.program(
        "lockhouse",
        &format!("exec {} \"$@\"", crate::binary::lockhouse()),
    );
}

fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            markdown(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}
