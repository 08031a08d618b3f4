//! The build of the README's first command has no test code in it, and no feature that only tests
//! use.

use std::collections::BTreeSet;
use std::process::Command;

/// Crates that are for tests and measurements.
const TEST_CRATES: [&str; 6] = [
    "lockhouse-bench",
    "lockhouse-lab",
    "lockhouse-testkit",
    "proptest",
    "tempfile",
    "tokio-test",
];

/// The features that our crates have in what ships.
const SHIPPED: [&str; 7] = [
    "default", "mysql", "postgres", "redis", "remote", "sqlite", "sqlx",
];

/// The crates that `cargo` builds with these options, and the features of each. Without `--workspace` it is what a
/// command without `-p` builds, as the README's is.
fn built(options: &[&str]) -> BTreeSet<(String, String)> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix=none"])
        .args(["--edges=normal,build", "--format={p}|{f}"])
        .args(options)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    let erred = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{erred}");
    let lines = String::from_utf8(tree.stdout).unwrap();
    let lines = lines.lines().filter_map(|line| line.split_once('|'));
    let crates = lines.flat_map(|(package, features)| {
        let name = package.split(' ').next().unwrap_or_default();
        let features = features.trim_end_matches(" (*)").split(',');
        features.map(|feature| (name.to_owned(), feature.to_owned()))
    });
    crates.collect()
}

/// The parts of a build that must not ship.
fn test_code(built: &BTreeSet<(String, String)>) -> Vec<String> {
    let is_test_code = |(name, feature): &&(String, String)| {
        let is_ours = name.starts_with("lockhouse");
        TEST_CRATES.contains(&name.as_str())
            || feature.contains("test")
            || is_ours && !feature.is_empty() && !SHIPPED.contains(&feature.as_str())
    };
    let found = built.iter().filter(is_test_code);
    found
        .map(|(name, feature)| format!("{name}/{feature}"))
        .collect()
}

#[test]
fn the_readme_binary_has_no_test_code() {
    let built = built(&[]);
    for (name, feature) in [
        ("lockhouse-cli", ""),
        ("lockhouse", "mysql"),
        ("tokio", "net"),
    ] {
        let expected = (name.to_owned(), feature.to_owned());
        assert!(built.contains(&expected), "{expected:?} is not there");
    }
    assert_eq!(test_code(&built), [""; 0]);
}

/// The check can fail: a build of the whole workspace has test code.
#[test]
fn a_workspace_build_has_test_code() {
    let found = test_code(&built(&["--workspace"]));
    for expected in [
        "tokio/test-util",
        "lockhouse-testkit/simulation",
        "lockhouse-lab/",
    ] {
        assert!(found.iter().any(|found| found == expected), "{found:?}");
    }
}
