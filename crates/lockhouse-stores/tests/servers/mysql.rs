//! Particulars of MySQL and MariaDB.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Batch, Kind};
use lockhouse_stores::open;

use crate::database::{Database, Server, acquire, define, granted, on_mysql_and_mariadb, one};
use crate::user::User;

on_mysql_and_mariadb! {
    a_user_with_a_password_can_log_in_again_and_again,
    a_batch_that_the_server_can_not_take_is_rejected,
}

/// By TCP in the clear, where MySQL wants the password encrypted with its key, and by TLS. The
/// server remembers a first login, and takes another path for the next.
async fn a_user_with_a_password_can_log_in_again_and_again(database: &Database) {
    database.migrated().await;
    let user = User::with_password(database, "ALL", "pä'ss/wörd").await;
    let mut modes = vec!["disabled", "preferred"];
    if database.server == Server::MySql {
        modes.push("required");
    }
    for mode in modes {
        for _ in 0..3 {
            let store = open(&user.url(&format!("ssl-mode={mode}"))).unwrap();
            store.ready().await.unwrap();
        }
    }

    let wrong = database.url(&format!("{}:wrong", user.name()), database.address(), "");
    let started = Instant::now();
    let error = open(&wrong).unwrap().ready().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert!(error.to_string().contains("password"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2));
    user.remove().await;
}

async fn a_batch_that_the_server_can_not_take_is_rejected(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let most = database
        .session()
        .await
        .number("SELECT @@max_allowed_packet")
        .await;
    let too_many = most / 500 + 1;
    let commands = (0..too_many).map(|i| acquire(format!("{i:0255}"), &["a"]));
    let error = store
        .transact(&Batch::new(commands.collect()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Rejected, "{error}");
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    granted(one(&store, acquire("x", &["a"])).await.unwrap());
}
