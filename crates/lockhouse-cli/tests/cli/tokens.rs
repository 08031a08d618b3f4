//! `lockhouse token`, and what asks for tokens.

use std::fs;

use crate::house::{Done, House, until};

/// Runs `lockhouse` with `token` in its environment.
fn with_token(house: &House, token: &str, args: &[&str]) -> Done {
    let output = house
        .command(args)
        .env("LOCKHOUSE_TOKEN", token)
        .output()
        .unwrap();
    output.into()
}

#[test]
fn a_token_is_made_listed_and_revoked() {
    let house = House::on_a_store();
    let create = [
        "token", "create", "ci", "--grant", "hold:a*", "--grant", "read:*",
    ];
    let done = house.done(&create);
    assert_eq!(done.code, 0, "{done:?}");
    let secret = done.stdout.trim();
    assert!(secret.starts_with("lh_") && secret.len() == 39, "{secret}");
    assert!(done.stderr.contains("not shown again"), "{done:?}");
    let listed = house.text(&["token", "list"]);
    assert!(listed.contains("hold:a* read:*"), "{listed}");
    assert!(!listed.contains(secret));
    let again = house.done(&create);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stderr.contains("token \"ci\" exists"), "{again:?}");
    house.text(&["token", "revoke", "ci"]);
    assert!(house.text(&["token", "list"]).contains("revoked"));
    let made = house.json(&[&create[..], &["--expires-in", "90d"]].concat());
    assert!(made["secret"].is_string() && made["expires_at"].is_string());
    let unknown = house.done(&["token", "revoke", "nobody"]);
    assert_eq!(unknown.code, 64, "{unknown:?}");
    let malformed = house.done(&["token", "create", "x", "--grant", "own:*"]);
    assert_eq!(malformed.code, 64, "{malformed:?}");
}

/// A copy of the database is of no use to a thief.
#[test]
fn the_store_has_no_token() {
    let house = House::on_a_store();
    let token = house.text(&["token", "create", "ci", "--grant", "hold:*"]);
    let file = house.url().strip_prefix("sqlite:").unwrap().to_owned();
    let files =
        [file.clone(), format!("{file}-wal")].map(|file| fs::read(file).unwrap_or_default());
    let holds = |text: &str| {
        let has = |bytes: &Vec<u8>| bytes.windows(text.len()).any(|at| at == text.as_bytes());
        files.iter().any(has)
    };
    assert!(holds("hold:*"), "the token's row is found");
    // Without its beginning, which all tokens have, and its checksum.
    assert!(!holds(&token.trim()[3..33]));
}

#[test]
fn a_server_is_shown_the_token_of_a_file_or_of_the_environment() {
    let house = House::behind_a_server();
    house.text(&["create", "a", "1"]);
    let store = house.store();
    let on_the_store = [
        "--url", &store, "token", "create", "ci", "--grant", "hold:a", "--grant", "read:a",
    ];
    let secret = house.text(&on_the_store);
    let secret = secret.trim();
    until("the server asks for a token", || {
        house.done(&["show", "a"]).code == 1
    });
    let refused = house.done(&["-o", "json", "show", "a"]);
    assert!(
        refused.stderr.contains(r#""code":"unauthenticated""#),
        "{refused:?}"
    );
    let shown = with_token(&house, secret, &["show", "a"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let file = house.path("token");
    fs::write(&file, format!("{secret}\n")).unwrap();
    house.text(&["--token-file", file.to_str().unwrap(), "show", "a"]);
    let forbidden = with_token(&house, secret, &["delete", "a"]);
    assert_eq!(forbidden.code, 1, "{forbidden:?}");
    assert!(forbidden.stderr.contains("define:a"), "{forbidden:?}");
    let script = "echo $LOCKHOUSE_URL $LOCKHOUSE_TOKEN; tr '\\0' ' ' < /proc/$PPID/cmdline";
    let run = with_token(
        &house,
        secret,
        &["run", "-s", "a", "--", "sh", "-c", script],
    );
    assert_eq!(run.code, 0, "{run:?}");
    let (environment, arguments) = run.stdout.split_once('\n').unwrap();
    assert_eq!(environment, format!("{} {secret}", house.url()));
    assert!(!arguments.contains(secret), "{arguments}");
    let broken = with_token(&house, "lh_nonsense", &["show", "a"]);
    assert_eq!(broken.code, 64, "{broken:?}");
    assert!(!broken.stderr.contains("nonsense"), "{broken:?}");
}

#[test]
fn a_server_refuses_to_listen_off_loopback_unprotected() {
    let house = House::on_a_store();
    let everywhere = ["serve", "--listen", "0.0.0.0:0"];
    let without_tls = house.done(&everywhere);
    assert_eq!(without_tls.code, 64, "{without_tls:?}");
    assert!(
        without_tls.stderr.contains("--behind-proxy"),
        "{without_tls:?}"
    );
    let behind_proxy = [&everywhere[..], &["--behind-proxy"]].concat();
    let without_token = house.done(&behind_proxy);
    assert_eq!(without_token.code, 64, "{without_token:?}");
    let advice = "lockhouse token create admin --grant 'admin:*' --url sqlite:";
    assert!(without_token.stderr.contains(advice), "{without_token:?}");
    let open = [&behind_proxy[..], &["--auth", "none"]].concat();
    assert_eq!(house.done(&open).code, 64);
    // The check of the settings says the same, as far as it can without the store.
    for args in [&everywhere[..], &open[..]] {
        let checked = house.done(&[args, &["--check-config"]].concat());
        assert_eq!(checked.code, 64, "{checked:?}");
        assert!(checked.stderr.contains("will not listen on"), "{checked:?}");
    }
    house.text(&[&behind_proxy[..], &["--check-config"]].concat());
    house.text(&["token", "create", "admin", "--grant", "admin:*"]);
    let mut served = house.start(&behind_proxy);
    assert!(served.line().contains(" on http://0.0.0.0:"));
    drop(served);
    let insecure = House::on_a_store();
    let mut served = insecure.start(&[&everywhere[..], &["--insecure"]].concat());
    assert!(served.line().contains(" on http://0.0.0.0:"));
}
