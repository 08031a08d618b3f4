//! Each verb, on a store and through a server, in both outputs.

use crate::house::House;
use serde_json::{Value, json};

macro_rules! on_a_store_and_through_a_server {
    ($($name:ident,)*) => {
        mod on_a_store {
            $(#[test] fn $name() { super::$name(&super::House::on_a_store()); })*
        }
        mod through_a_server {
            $(#[test] fn $name() { super::$name(&super::House::behind_a_server()); })*
        }
    };
}

on_a_store_and_through_a_server! {
    create_says_whether_it_created,
    create_never_resizes,
    resize_is_for_what_exists,
    show_tells_all_of_one_semaphore,
    list_is_in_byte_order,
    delete_is_for_what_nobody_holds,
    history_has_the_latest_change_first,
    acquire_prints_the_id_and_the_fences,
    acquiring_again_with_the_same_id_is_the_same_grant,
    a_name_may_have_an_equals_sign,
    renew_pushes_the_expiry,
    release_says_whether_it_ended_the_request,
    list_takes_a_prefix,
    holders_are_those_of_one_semaphore_or_of_all,
    holders_are_those_of_one_owner,
    migrate_says_what_is_up_to_date,
}

fn create_says_whether_it_created(house: &House) {
    let created = house.text(&["create", "backup-slots", "10"]);
    assert_eq!(
        created,
        "semaphore \"backup-slots\" created with capacity 10\n"
    );
    let again = house.text(&["create", "backup-slots", "10"]);
    assert_eq!(
        again,
        "semaphore \"backup-slots\" exists already, with capacity 10\n"
    );
    let mut json = house.json(&["create", "gpu", "0"]);
    assert_eq!(json["created"], true);
    json.as_object_mut().unwrap().remove("created");
    assert_eq!(json, house.json(&["show", "gpu"]));
    assert_eq!(house.json(&["create", "gpu", "0"])["created"], false);
}

/// A set-up script must not reopen what an operator closed.
fn create_never_resizes(house: &House) {
    house.text(&["create", "a", "2"]);
    house.text(&["resize", "a", "0"]);
    let done = house.done(&["create", "a", "2"]);
    assert_eq!((done.code, &*done.stdout), (1, ""), "{done:?}");
    assert!(
        done.stderr.contains("capacity of \"a\" is 0, not 2"),
        "{done:?}"
    );
    assert!(
        done.stderr.contains("try: lockhouse resize a 2;"),
        "{done:?}"
    );
    let there = house.json(&["create", "a", "2", "--if-missing"]);
    assert_eq!(
        (&there["created"], &there["capacity"]),
        (&false.into(), &0.into())
    );
    assert_eq!(
        house.text(&["create", "a", "2", "--if-missing"]),
        "semaphore \"a\" exists already, with capacity 0\n"
    );
    assert_eq!(
        house.json(&["history", "a"])["changes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let made = house.json(&["create", "b", "3", "--if-missing"]);
    assert_eq!(
        (&made["created"], &made["capacity"]),
        (&true.into(), &3.into())
    );
}

fn resize_is_for_what_exists(house: &House) {
    let done = house.done(&["resize", "a", "1"]);
    assert_eq!(done.code, 1);
    assert_eq!(house.json(&["list"])["semaphores"], json!([]));
    house.text(&["create", "a", "1"]);
    assert_eq!(
        house.text(&["resize", "a", "2"]),
        "semaphore \"a\" resized to capacity 2\n"
    );
    assert_eq!(house.json(&["resize", "a", "3"])["capacity"], 3);
}

fn show_tells_all_of_one_semaphore(house: &House) {
    house.text(&["create", "a", "3"]);
    house.text(&["acquire", "-s", "a=2"]);
    let json = house.json(&["show", "a"]);
    let names = json.as_object().unwrap().keys().map(String::as_str);
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    let all = [
        "available",
        "capacity",
        "created_at",
        "fence",
        "in_use",
        "name",
        "resized",
        "slots",
        "template",
        "updated_at",
        "waiting",
    ];
    assert_eq!(names, all);
    assert_eq!(
        (&json["name"], &json["available"]),
        (&"a".into(), &1.into())
    );
    let text = house.text(&["show", "a"]);
    let lines: Vec<_> = text.lines().map(|l| l.split_whitespace().next()).collect();
    // Whether it was resized is said behind its template.
    assert_eq!(lines.len(), all.len() - 1, "{text}");
    assert!(text.contains("Capacity:    3\n"), "{text}");
    assert!(text.contains("In use:      2\n"), "{text}");
}

fn list_is_in_byte_order(house: &House) {
    for name in ["b", "a b", "B"] {
        house.text(&["create", name, "1"]);
    }
    let json = house.json(&["list"]);
    let names: Vec<_> = json["semaphores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["B", "a b", "b"]);
    assert_eq!(json["next"], Value::Null);
    let text = house.text(&["list"]);
    let expected = "NAME   CAPACITY   IN USE   AVAILABLE   WAITING   FENCE\n\
                    B      1          0        1           0         0\n\
                    a b    1          0        1           0         0\n\
                    b      1          0        1           0         0\n";
    assert_eq!(text, expected);
}

fn delete_is_for_what_nobody_holds(house: &House) {
    house.text(&["create", "a", "1"]);
    house.text(&["acquire", "-s", "a", "--id", "job"]);
    let done = house.done(&["delete", "a"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("lockhouse holders a"), "{done:?}");
    house.text(&["release", "job"]);
    assert_eq!(house.text(&["delete", "a"]), "semaphore \"a\" deleted\n");
    assert_eq!(house.done(&["show", "a"]).code, 1);
    house.text(&["create", "a", "1"]);
    assert_eq!(house.text(&["delete", "a", "-o", "json"]), "");
}

fn history_has_the_latest_change_first(house: &House) {
    house.text(&["create", "a", "1"]);
    house.text(&["resize", "a", "2", "--note", "two\ndisks"]);
    house.text(&["resize", "a", "3"]);
    let json = house.json(&["history", "a"]);
    let latest = &json["changes"][0];
    assert_eq!(
        (&latest["old_capacity"], &latest["new_capacity"]),
        (&2.into(), &3.into())
    );
    assert_eq!(json["changes"][1]["note"], "two\ndisks");
    let by = latest["changed_by"].as_str().unwrap();
    assert!(by.contains('@'), "{by}");
    let text = house.text(&["history", "a"]);
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["WHEN", "FROM", "TO", "BY", "NOTE"]
    );
    assert!(text.contains("two disks\n"), "a note is one line: {text}");
}

fn acquire_prints_the_id_and_the_fences(house: &House) {
    house.text(&["create", "a", "5"]);
    house.text(&["create", "b", "5"]);
    let text = house.text(&[
        "acquire", "-s", "a", "-s", "b=3", "--id", "job", "--owner", "ann", "--ttl", "1h30m",
    ]);
    let rows: Vec<Vec<_>> = text
        .lines()
        .map(|line| line.split_whitespace().take(6).collect())
        .collect();
    assert_eq!(
        rows[0],
        ["ID", "OWNER", "SEMAPHORE", "COUNT", "FENCE", "SLOTS"]
    );
    assert_eq!(rows[1], ["job", "ann", "a", "1", "1", "-"]);
    assert_eq!(rows[2], ["job", "ann", "b", "3", "1", "-"]);
    assert!(
        text.lines().nth(1).unwrap().ends_with("in 1h 30m"),
        "{text}"
    );

    let json = house.json(&["acquire", "-s", "a"]);
    let id = json["external_id"].as_str().unwrap();
    assert_eq!(id.len(), 36, "a UUID: {id}");
    assert_eq!(
        json["permits"],
        json!([{"semaphore": "a", "count": 1, "fence": 2, "slots": null}])
    );
    assert_eq!(
        (&json["state"], &json["ttl_ms"], &json["owner"]),
        (&"acquired".into(), &Value::Null, &Value::Null)
    );
}

fn acquiring_again_with_the_same_id_is_the_same_grant(house: &House) {
    house.text(&["create", "a", "1"]);
    let first = house.json(&["acquire", "-s", "a", "--id", "job"]);
    let second = house.json(&["acquire", "-s", "a", "--id", "job"]);
    assert_eq!(first, second);
    assert_eq!(house.in_use("a"), 1);
}

fn a_name_may_have_an_equals_sign(house: &House) {
    house.text(&["create", "disk=sda", "2"]);
    house.text(&["create", "disk=1", "2"]);
    let json = house.json(&["acquire", "-s", "disk=sda=1", "-s", "disk=1=2"]);
    assert_eq!(
        json["permits"],
        json!([
            {"semaphore": "disk=1", "count": 2, "fence": 1, "slots": null},
            {"semaphore": "disk=sda", "count": 1, "fence": 1, "slots": null},
        ])
    );
}

fn renew_pushes_the_expiry(house: &House) {
    house.text(&["create", "a", "2"]);
    let granted = house.json(&["acquire", "-s", "a", "--id", "job", "--ttl", "1m"]);
    let renewed = house.json(&["renew", "job"]);
    assert_eq!(renewed["ttl_ms"], 60_000);
    assert_ne!(renewed["expires_at"], granted["expires_at"]);
    assert_eq!(
        house.json(&["renew", "job", "--ttl", "5m"])["ttl_ms"],
        300_000
    );
    let text = house.text(&["renew", "job", "--ttl", "2days"]);
    assert!(text.starts_with("ID "), "{text}");
    assert!(text.trim_end().ends_with("in 2days"), "{text}");

    house.text(&["acquire", "-s", "a", "--id", "forever"]);
    let done = house.done(&["renew", "forever"]);
    assert_eq!(done.code, 64, "there is no TTL to renew: {done:?}");
    assert!(
        done.stderr.contains("lockhouse renew forever --ttl"),
        "{done:?}"
    );
}

fn release_says_whether_it_ended_the_request(house: &House) {
    house.text(&["create", "a", "2"]);
    house.text(&["acquire", "-s", "a", "--id", "job"]);
    let json = house.json(&["release", "job"]);
    assert_eq!(json["released"], true);
    assert_eq!(
        (&json["external_id"], &json["end_reason"]),
        (&"job".into(), &"released".into())
    );
    assert_eq!(house.json(&["release", "job"])["released"], false);
    let again = house.text(&["release", "job"]);
    let told = "request \"job\" had ended before: released, by ";
    assert!(again.starts_with(told), "{again}");
    house.text(&["acquire", "-s", "a", "--id", "job-2"]);
    assert_eq!(
        house.text(&["release", "job-2"]),
        "request \"job-2\" released\n"
    );
    assert_eq!(house.in_use("a"), 0);
}

fn list_takes_a_prefix(house: &House) {
    for name in ["customer/a", "customer/b", "customers", "é"] {
        house.text(&["create", name, "1"]);
    }
    let names = |args: &[&str]| -> Vec<String> {
        let json = house.json(&[&["list"], args].concat());
        let listed = json["semaphores"].as_array().unwrap();
        let names = listed.iter().map(|row| row["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    };
    assert_eq!(names(&["customer/"]), ["customer/a", "customer/b"]);
    assert_eq!(
        names(&["customer"]),
        ["customer/a", "customer/b", "customers"]
    );
    assert_eq!(names(&["C"]), [""; 0]);
    assert_eq!(names(&[]).len(), 4);
    let text = house.text(&["list", "customer/"]);
    assert!(
        text.contains("customer/b") && !text.contains("customers"),
        "{text}"
    );
    assert_eq!(house.done(&["list", "a\u{7}"]).code, 64);
}

fn holders_are_those_of_one_semaphore_or_of_all(house: &House) {
    house.text(&["create", "a", "2"]);
    house.text(&["create", "b", "2"]);
    let on_a = house.json(&["acquire", "-s", "a", "--id", "1"]);
    let on_both = house.json(&["acquire", "-s", "a", "-s", "b", "--id", "2"]);
    assert_eq!(house.json(&["holders"])["holders"], json!([on_a, on_both]));
    assert_eq!(house.json(&["holders", "b"])["holders"], json!([on_both]));
    let text = house.text(&["holders", "b"]);
    assert_eq!(text.lines().count(), 3, "a head and two permits: {text}");
    assert!(
        text.starts_with("ID   OWNER   SEMAPHORE   COUNT   FENCE   SLOTS   GRANTED"),
        "{text}"
    );
    assert_eq!(house.done(&["holders", "c"]).code, 1);
}

fn holders_are_those_of_one_owner(house: &House) {
    house.text(&["create", "a", "9"]);
    house.text(&["create", "b", "9"]);
    let hold = |id: &str, owner: &str, on: &[&str]| {
        let by = ["acquire", "--id", id, "--owner", owner];
        house.json(&[&by[..], on].concat())
    };
    let one = hold("1", "ann", &["-s", "a"]);
    let two = hold("2", "ann", &["-s", "a", "-s", "b"]);
    hold("3", "Ann", &["-s", "b"]);
    let held = |args: &[&str]| house.json(&[&["holders"], args].concat())["holders"].clone();
    assert_eq!(held(&["--owner", "ann"]), json!([one, two]));
    assert_eq!(held(&["b", "--owner", "ann"]), json!([two]));
    assert_eq!(held(&["--owner", "nobody"]), json!([]));
    assert_eq!(house.done(&["holders", "c", "--owner", "ann"]).code, 1);
    assert_eq!(house.done(&["holders", "--owner", " "]).code, 64);
}

fn migrate_says_what_is_up_to_date(house: &House) {
    let said = house.text(&["migrate"]);
    let shown = house.url().trim_end_matches('/');
    assert!(
        said.starts_with(shown) && said.ends_with(" is up to date\n"),
        "{said}"
    );
    assert_eq!(house.text(&["-o", "json", "migrate"]), "");
}
