//! The reference pages name what there is: every error code, metric and path, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lockhouse::Code;
use lockhouse_wire::Problem;

use crate::server::Server;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    fs::read_to_string(path.join(name)).unwrap()
}

/// The cells of each row of the page's tables that begins with code in backticks: that code, and the second cell.
fn rows(page: &str) -> Vec<(String, String)> {
    let rows = page.lines().filter_map(|line| {
        let (code, rest) = line.strip_prefix("| `")?.split_once("` |")?;
        let second = rest.split('|').next()?.trim();
        Some((code.to_owned(), second.to_owned()))
    });
    rows.collect()
}

#[test]
fn errors_md_has_every_code_with_its_status() {
    let documented = rows(&page("errors.md"));
    let codes: Vec<_> = documented.iter().map(|(code, _)| code.as_str()).collect();
    let expected: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let (mut sorted, mut all) = (codes.clone(), expected);
    sorted.sort_unstable();
    all.sort_unstable();
    assert_eq!(sorted, all, "the codes of docs/reference/errors.md");
    for (code, statuses) in &documented {
        let status = Problem::new(Code::parse(code).unwrap(), "")
            .status
            .to_string();
        let first = statuses.split(',').next().unwrap();
        assert_eq!(first, status, "{code} in docs/reference/errors.md");
    }
}

#[tokio::test]
async fn metrics_md_has_every_metric() {
    let server = Server::with_store_metrics().await;
    // A metric with labels is there once something has them.
    server.get("/v1/semaphores/a").await.is(404);
    let define = r#"{"capacity":1}"#;
    server.put("/v1/semaphores/a", define).await.is(201);
    let metrics = server.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let served = text.lines().filter_map(family);
    let served: BTreeSet<_> = served
        .map(|(name, kind)| {
            let labels = labels(&text, &name);
            (name, kind, labels)
        })
        .collect();
    let page = page("metrics.md");
    let documented: BTreeSet<_> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `lockhouse_")?.split('|');
            let mut cell = || Some(cells.next()?.trim());
            let (name, kind, labels) = (cell()?.strip_suffix('`')?, cell()?, cell()?);
            let labels = labels.split(", ").map(|label| label.trim_matches('`'));
            let labels = labels.filter(|label| !label.is_empty());
            let name = format!("lockhouse_{name}");
            Some((name, kind.to_owned(), labels.map(str::to_owned).collect()))
        })
        .collect();
    assert!(served.len() > 4, "{served:?}");
    assert_eq!(
        documented, served,
        "docs/reference/metrics.md, and /metrics"
    );
}

/// The labels of the metric's samples, apart from the bounds of a histogram's buckets.
fn labels(text: &str, name: &str) -> BTreeSet<String> {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| rest.strip_prefix(suffix))
            .unwrap_or(rest);
        rest.strip_prefix('{')?.rsplit_once('}')
    });
    let pairs = samples.flat_map(|(labels, _)| labels.split("\","));
    let names = pairs.filter_map(|pair| pair.split_once('='));
    let names = names.map(|(name, _)| name.to_owned());
    names.filter(|name| name != "le").collect()
}

/// The name and type of `# TYPE lockhouse_http_requests_total counter`.
fn family(line: &str) -> Option<(String, String)> {
    let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
    Some((name.to_owned(), kind.to_owned()))
}

#[tokio::test]
async fn http_md_has_every_call_of_openapi_json() {
    let server = Server::start().await;
    let contract = server.get("/openapi.json").await.json();
    let mut calls = BTreeSet::new();
    for (path, operations) in contract["paths"].as_object().unwrap() {
        let methods = operations.as_object().unwrap().keys();
        let methods = methods.filter(|key| *key != "parameters");
        calls.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let documented: BTreeSet<_> = rows(&page("http.md"))
        .into_iter()
        .map(|(call, _)| call)
        .filter(|call| call.contains(" /"))
        .collect();
    assert_eq!(
        documented, calls,
        "docs/reference/http.md, and openapi.json"
    );
}

/// Pages and clients are grouped by them.
#[tokio::test]
async fn every_call_of_openapi_json_has_a_tag_that_is_described() {
    let server = Server::start().await;
    let contract = server.get("/openapi.json").await.json();
    let tags = contract["tags"].as_array().unwrap().iter();
    let described: BTreeSet<_> = tags
        .filter(|tag| tag["description"].is_string())
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    let mut used = BTreeSet::new();
    for (path, operations) in contract["paths"].as_object().unwrap() {
        let operations = operations.as_object().unwrap().iter();
        for (method, operation) in operations.filter(|(key, _)| *key != "parameters") {
            let tags = operation["tags"].as_array();
            let [tag] = &tags.unwrap_or_else(|| panic!("{method} {path} has no tag"))[..] else {
                panic!("{method} {path} has several tags");
            };
            used.insert(tag.as_str().unwrap());
        }
    }
    assert_eq!(used, described);
}
