//! URLs of any shape: each is taken or refused, and no password is ever shown.

use lockhouse_core::store::Kind;
use proptest::prelude::*;

const PASSWORD: &str = "s3cr3t";

const SCHEMES: [&str; 8] = [
    "memory",
    "sqlite",
    "mysql",
    "mariadb",
    "postgres",
    "postgresql",
    "http",
    "MySQL",
];

/// What may follow the user and the password of a URL.
fn rests() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "host",
        "[::1]",
        "[::",
        "127.0.0.1",
        ":3306",
        ":",
        ":99999",
        "/",
        "/permits",
        "?",
        "&",
        "=",
        "#",
        "%",
        "%2F",
        "%00",
        "\\",
        "connections=4",
        "connections=-1",
        "ssl-mode=",
        "sslmode=require",
        "sslcert=/a",
        "socket=/tmp/s",
        "é",
        " ",
        "\0",
        "..",
    ]);
    prop_oneof![
        prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat()),
        "[^@]{0,24}",
    ]
}

fn shown(url: &str) -> String {
    match lockhouse_stores::open(url) {
        Ok(store) => format!("{store:?}"),
        Err(error) => {
            assert_eq!(error.kind(), Kind::Configuration, "{url:?}");
            format!("{error} {error:?}")
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(
        text: String,
        scheme in prop::sample::select(SCHEMES.to_vec()),
        rest in rests(),
    ) {
        for url in [text, format!("{scheme}:{rest}"), format!("{scheme}://{rest}")] {
            shown(&url);
        }
    }

    #[test]
    fn a_password_is_never_shown(
        scheme in prop::sample::select(SCHEMES[2..].to_vec()),
        user in "[a-z]{0,3}",
        rest in rests(),
    ) {
        let shown = shown(&format!("{scheme}://{user}:{PASSWORD}@{rest}"));
        prop_assert!(!shown.contains(PASSWORD), "{shown}");
    }
}
