//! `lockhouse serve --config`, and the audit log.

use std::fs;

use crate::house::{Done, House, Running, until};
use nix::sys::signal::Signal;
use serde_json::Value;

/// The output of `serve` with a file of `text` and these arguments and variables, on the URL of the
/// file.
fn checked(house: &House, text: &str, args: &[&str], variables: &[(&str, &str)]) -> Done {
    let file = house.path("lockhouse.toml");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let serve = ["serve", "--config", file, "--check-config"];
    let mut command = house.command(&[&serve, args].concat());
    command.env_remove("LOCKHOUSE_URL");
    command.envs(variables.iter().copied());
    command.output().unwrap().into()
}

/// The value of a setting, and where it is from.
fn setting<'a>(settings: &'a Value, key: &str) -> (&'a Value, &'a str) {
    let all = settings["settings"].as_array().unwrap();
    let found = all.iter().find(|setting| setting["key"] == key).unwrap();
    (&found["values"], found["from"].as_str().unwrap())
}

#[test]
fn a_flag_wins_over_its_variable_and_that_over_the_file() {
    let house = House::on_a_store();
    let text = "sweep_every = \"1s\"\npurge_every = \"2s\"\nmax_waiters = 3\nbehind_proxy = true\n";
    let args = ["--sweep-every", "10s", "-o", "json"];
    let variables = [
        ("LOCKHOUSE_SWEEP_EVERY", "20s"),
        ("LOCKHOUSE_PURGE_EVERY", "30s"),
    ];
    let done = checked(&house, text, &args, &variables);
    assert_eq!(done.code, 0, "{done:?}");
    let settings = serde_json::from_str(&done.stdout).unwrap();
    for (key, value, from) in [
        ("sweep_every", "10s", "flag"),
        ("purge_every", "30s", "variable"),
        ("max_waiters", "3", "file"),
        ("behind_proxy", "true", "file"),
        ("history_every", "24h", "default"),
    ] {
        let (values, is_from) = setting(&settings, key);
        assert_eq!((&values[0], is_from), (&Value::from(value), from), "{key}");
    }
}

#[test]
fn check_config_prints_a_file_with_the_same_settings() {
    let house = House::on_a_store();
    let text = "url = \"sqlite:a.db\"\ncheck = [\"a-*=http://h/{owner}\", \"*=http://i/{owner}\"]\n\
        max_waiters = 7\ninsecure = false\n";
    let printed = checked(&house, text, &[], &[]);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(
        printed.stdout.contains("max_waiters = 7 # file\n"),
        "{printed:?}"
    );
    assert!(
        printed.stdout.contains("# tls_cert is not set\n"),
        "{printed:?}"
    );
    let again = checked(&house, &printed.stdout, &["-o", "json"], &[]);
    assert_eq!(again.code, 0, "{again:?}");
    let settings: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(setting(&settings, "check").0.as_array().unwrap().len(), 2);
    assert_eq!(
        setting(&settings, "url"),
        (&Value::from(vec!["sqlite:a.db"]), "file")
    );
}

#[test]
fn check_config_shows_the_pattern_the_scheme_and_the_query_of_a_check() {
    let house = House::on_a_store();
    let shown = "job-*=mysql://db/jobs SELECT alive FROM jobs WHERE id = ?";
    let text = format!("check = \"{}\"\n", shown.replace("://", "://app:s3cr3t@"));
    let printed = checked(&house, &text, &[], &[]);
    let line = format!("check = \"{shown}\" # file\n");
    assert!(printed.stdout.contains(&line), "{printed:?}");
}

#[test]
fn a_file_that_is_wrong_is_refused_with_what_is_wrong() {
    let house = House::on_a_store();
    for (text, problem) in [
        (
            "max_waitres = 3\n",
            "max_waitres is not a setting; a similar one is max_waiters",
        ),
        ("colour = 3\n", "colour is not a setting"),
        ("max_waiters = \"many\"\n", "--max-waiters"),
        ("\nsweep_every = \"1ms\"\n", "it goes from 100ms to 10years"),
        ("insecure = \"yes\"\n", "insecure takes true or false"),
        (
            "listen = [\"a:1\", \"b:2\"]\n",
            "listen takes a text or a number",
        ),
        ("[server]\nlisten = \"a:1\"\n", "server is not a setting"),
        ("listen = \"a:1\"\nlisten =\n", "line 2"),
        (
            "tls_cert = \"a.pem\"\n",
            "TLS takes both --tls-cert and --tls-key",
        ),
    ] {
        let done = checked(&house, text, &[], &[]);
        assert_eq!(done.code, 64, "{text}: {done:?}");
        assert!(done.stderr.contains(problem), "{text}: {done:?}");
        let is_of_the_file = done.stderr.contains("lockhouse.toml: ") || text.starts_with("tls");
        assert!(is_of_the_file, "{done:?}");
    }
    let missing = house.done(&["serve", "--config", "/no/such.toml", "-o", "json"]);
    assert_eq!(missing.code, 64, "{missing:?}");
    let problem: Value = serde_json::from_str(&missing.stderr).unwrap();
    assert_eq!(problem["code"], "invalid_request");
}

#[test]
fn no_password_of_a_file_is_shown() {
    let house = House::on_a_store();
    let url = "url = \"mysql://app:s3cr3t@db/x\"\ncheck = \"*=mysql://app:s3cr3t@db/x SELECT 1\"\n";
    for text in [
        url.to_owned(),
        format!("{url}nonsense\n"),
        format!("{url}ulr = 1\n"),
        "\"mysql://app:s3cr3t@db/x\" = 1\n".to_owned(),
    ] {
        for output in ["table", "json"] {
            let done = checked(&house, &text, &["-o", output], &[]);
            let shown = format!("{}{}", done.stdout, done.stderr);
            assert!(!shown.contains("s3cr3t"), "{shown}");
        }
    }
}

#[test]
fn a_server_serves_by_its_file() {
    let house = House::on_a_store();
    let file = house.path("lockhouse.toml");
    let text = format!(
        "url = \"{}\"\nlisten = \"127.0.0.1:0\"\nlog_format = \"json\"\n",
        house.store()
    );
    fs::write(&file, text).unwrap();
    let mut command = house.command(&["serve", "--config", file.to_str().unwrap()]);
    command.env_remove("LOCKHOUSE_URL");
    let mut server = Running::new(command);
    let line = server.line();
    let (_, url) = line.rsplit_once(" on ").expect(&line);
    house.text(&["--url", url, "create", "a", "1"]);
    assert_eq!(house.json(&["show", "a"])["capacity"], 1);
    server.signal(Signal::SIGTERM);
    let done = server.end();
    let mut logged = done.stderr.lines();
    let first: Value = serde_json::from_str(logged.next().unwrap()).unwrap();
    assert_eq!(first["level"], "INFO", "{done:?}");
}

/// A server with an audit log, its URL, and the secret of a token that may do all.
fn audited(house: &House) -> (Running, String, String) {
    let create = ["token", "create", "admin", "--grant", "admin:*"];
    let secret = house.text(&create).trim().to_owned();
    let log = house.path("audit.log");
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--audit-log",
        log.to_str().unwrap(),
    ];
    let mut server = house.start(&serve);
    let line = server.line();
    let (_, url) = line.rsplit_once(" on ").expect(&line);
    let url = url.to_owned();
    (server, url, secret)
}

fn lines(house: &House, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(house.path(file)).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn each_change_and_each_refused_access_is_a_line_of_the_audit_log() {
    let house = House::on_a_store();
    let (_server, url, admin) = audited(&house);
    let call = |token: &str, args: &[&str]| -> Done {
        let mut command = house.command(&[&["--url", &url][..], args].concat());
        command
            .env("LOCKHOUSE_TOKEN", token)
            .output()
            .unwrap()
            .into()
    };
    let done = |args: &[&str]| -> Done {
        let done = call(&admin, args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done
    };
    done(&["create", "a", "2"]);
    done(&["resize", "a", "3"]);
    done(&["template", "set", "c/*", "2"]);
    done(&["template", "delete", "c/*"]);
    let worker = done(&["token", "create", "worker", "--grant", "hold:a"]);
    let worker = worker.stdout.trim().to_owned();
    let held = call(
        &worker,
        &[
            "acquire", "-s", "a", "--id", "x", "--ttl", "1m", "--owner", "o",
        ],
    );
    assert_eq!(held.code, 0, "{held:?}");
    assert_eq!(call(&worker, &["resize", "a", "4"]).code, 1);
    assert_eq!(
        call("lh_", &["list"]).code,
        64,
        "a malformed token is not sent"
    );
    let stranger = admin.replace(&admin[3..5], "00");
    assert_ne!(call(&stranger, &["list"]).code, 0);
    done(&["release", "x", "--force", "--by", "ops"]);
    done(&["token", "revoke", "worker"]);
    done(&["delete", "a"]);

    let lines = lines(&house, "audit.log");
    let seen: Vec<_> = lines
        .iter()
        .map(|line| {
            let said = |member: &str| line[member].as_str().unwrap_or("-");
            let subject = ["semaphore", "template", "token", "request", "code"]
                .map(said)
                .into_iter()
                .find(|subject| *subject != "-");
            format!(
                "{} {} {}",
                said("by"),
                said("action"),
                subject.unwrap_or("-")
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            "admin define a",
            "admin resize a",
            "admin set_template c/*",
            "admin delete_template c/*",
            "admin create_token worker",
            "worker refuse forbidden",
            "admin force x",
            "admin revoke_token worker",
            "admin delete a",
        ],
        "{lines:#?}"
    );
    for line in &lines {
        assert_eq!(line["from"], "127.0.0.1", "{line}");
        let at: lockhouse::Timestamp = line["at"].as_str().unwrap().parse().unwrap();
        assert!(at.as_second() > 1_700_000_000, "{line}");
        assert!(line["method"].is_string() && line["path"].is_string() && line["status"].is_u64());
        assert!(!line.to_string().contains(&admin[3..]), "{line}");
    }
    assert_eq!(lines[1]["capacity"], 3);
    assert_eq!(lines[4]["grants"], serde_json::json!(["hold:a"]));
    assert_eq!(
        (&lines[6]["owner"], &lines[6]["released"]),
        (&"o".into(), &true.into())
    );
}

#[test]
fn a_call_whose_line_cannot_be_written_is_answered_and_the_loss_is_logged() {
    let house = House::on_a_store();
    let mut server = house.start(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--audit-log",
        "/dev/full",
    ]);
    let line = server.line();
    let (_, url) = line.rsplit_once(" on ").expect(&line);
    let made = house.done(&["--url", url, "create", "a", "1"]);
    assert_eq!(made.code, 0, "{made:?}");
    while !server
        .log_line()
        .contains("a line of the audit log is lost")
    {}
}

#[test]
fn an_audit_log_that_was_moved_away_is_created_again_on_sighup() {
    let house = House::on_a_store();
    let (server, url, admin) = audited(&house);
    let create = |name: &str| {
        let mut command = house.command(&["--url", &url, "create", name, "1"]);
        let output = command.env("LOCKHOUSE_TOKEN", &admin).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    create("a");
    fs::rename(house.path("audit.log"), house.path("audit.log.1")).unwrap();
    server.signal(Signal::SIGHUP);
    until("the file is there again", || {
        house.path("audit.log").exists()
    });
    create("b");
    assert_eq!(lines(&house, "audit.log.1").len(), 1);
    assert_eq!(lines(&house, "audit.log")[0]["semaphore"], "b");
}
