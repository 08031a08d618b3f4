//! `lockhouse template`, and the guide "limit per customer".

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::house::House;
use lockhouse_testkit::place;

#[test]
fn a_template_is_set_listed_and_deleted() {
    for house in [House::on_a_store(), House::behind_a_server()] {
        let set = house.text(&["template", "set", "customer/*", "2"]);
        assert_eq!(set, "template \"customer/*\" created: capacity 2\n");
        let again = house.json(&["template", "set", "customer/*", "3", "--idle", "1d"]);
        assert_eq!(again["created"], false);
        assert_eq!(again["idle_ms"], 86_400_000);
        let listed = house.text(&["template", "list"]);
        assert_eq!(
            listed,
            "PATTERN      CAPACITY   IDLE\ncustomer/*   3          1day\n"
        );
        house.text(&["acquire", "-s", "customer/acme"]);
        let shown = house.text(&["show", "customer/acme"]);
        assert!(shown.contains("Template:    customer/*\n"), "{shown}");
        house.text(&["resize", "customer/acme", "9"]);
        let shown = house.json(&["show", "customer/acme"]);
        assert_eq!(shown["template"], "customer/*");
        assert_eq!(shown["resized"], true);
        let deleted = house.text(&["template", "delete", "customer/*"]);
        assert_eq!(
            deleted,
            "template \"customer/*\" deleted, its semaphores stay\n"
        );
        let gone = house
            .command(&["template", "delete", "customer/*"])
            .output()
            .unwrap();
        assert_eq!(gone.status.code(), Some(1));
        let gone = house
            .command(&["template", "set", "customer", "2"])
            .output()
            .unwrap();
        assert_eq!(
            gone.status.code(),
            Some(64),
            "a pattern without a star is a mistake"
        );
    }
}

/// Each of its command blocks is run as printed.
fn follow_the_guide(house: &House) {
    let guide =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/limit-per-customer.md");
    let guide = fs::read_to_string(guide).unwrap();
    let mut blocks = guide.split("```").skip(1).step_by(2);
    let mut script = "set -e\n".to_owned();
    for block in blocks
        .by_ref()
        .filter_map(|block| block.strip_prefix("sh\n"))
    {
        script += block;
    }
    let folder = house.path("guide");
    fs::create_dir(&folder).unwrap();
    let program = crate::house::lockhouse();
    let programs = Path::new(&program).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let done = Command::new("bash")
        .args(["-c", &script])
        .current_dir(&folder)
        .env("LOCKHOUSE_URL", house.url())
        .env("PATH", path)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{output}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(output.lines().any(|line| line.trim() == "100"), "{output}");
    let customers = house.json(&["list", "customer/"]);
    let customers = customers["semaphores"].as_array().unwrap();
    assert_eq!(customers.len(), 5);
    for customer in customers {
        let capacity = if customer["name"] == "customer/ann" {
            5
        } else {
            3
        };
        assert_eq!(customer["capacity"], capacity, "{customer}");
        assert_eq!(customer["in_use"], 0);
        assert_eq!(customer["template"], "customer/*");
        // 20 grants, and a change of the capacity; the operator's resize of one.
        let fence = if customer["name"] == "customer/ann" {
            22
        } else {
            21
        };
        assert_eq!(customer["fence"], fence, "{customer}");
    }
}

#[test]
fn the_guide_works_as_printed_on_sqlite() {
    follow_the_guide(&House::on_a_store());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_works_as_printed_on_mysql() {
    let Some(place) = place::mysql().await else {
        return;
    };
    follow_the_guide(&House::at(place.url()));
    place.clear().await;
}
