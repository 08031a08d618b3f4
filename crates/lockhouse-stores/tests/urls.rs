//! URLs of any shape: each is taken or refused, and no password is ever shown.

use lockhouse_core::store::Kind;
use proptest::prelude::*;

/// The ends of every password; either alone would give it away.
const BEGIN: &str = "s3cr3t";
const END: &str = "pa55w0rd";

const SCHEMES: [&str; 11] = [
    "memory",
    "mysqll",
    "sqlite",
    "mysql",
    "mariadb",
    "postgres",
    "postgresql",
    "redis",
    "rediss",
    "http",
    "MySQL",
];

/// The rest of a URL after the user and the password.
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
        "namespace=a",
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

    /// Encoded or not: a slash or a question mark in it makes another URL of it.
    #[test]
    fn a_password_is_never_shown(
        scheme in prop::sample::select(SCHEMES.to_vec()),
        user in "[a-z]{0,3}",
        between in "[ -~é]{0,6}|[0-9]{1,3}[/?#@]",
        rest in rests(),
    ) {
        let password = format!("{BEGIN}{between}{END}");
        for url in [
            format!("{scheme}://{user}:{password}@{rest}"),
            format!("{scheme}://{user}:12/{password}@{rest}"),
            format!("{scheme}://{user}:12?{password}@{rest}"),
            format!("{scheme}://{user}:12#{password}@{rest}"),
            format!("{user}:{password}@{rest}"),
            format!("{scheme}://host/x?password={password}&{rest}"),
            format!("{scheme}://host/x?{password}"),
            format!("{scheme}://host/x?connections={password}&sslmode={password}"),
        ] {
            let error = shown(&url);
            prop_assert!(!error.contains(BEGIN) && !error.contains(END), "{error}");
            let public = lockhouse_stores::without_credentials(&url);
            prop_assert!(!public.contains(BEGIN), "{public}");
        }
    }
}
