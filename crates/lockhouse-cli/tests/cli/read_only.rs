//! Servers that take no writes: one that an operator has to correct exits with 64 at once, and one
//! that a failover may correct with 69.

use std::time::{Duration, Instant};

use crate::house::{Done, House};
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place;
use lockhouse_testkit::private_server::PrivateServer;

/// Reading goes on.
fn is_told(url: &str, code: i32, setting: &str) -> Done {
    let house = House::at(url);
    let begun = Instant::now();
    let done = house.done(&["acquire", "-s", "a"]);
    let took = begun.elapsed();
    assert_eq!(done.code, code, "{done:?}");
    assert!(done.stderr.contains(setting), "{done:?}");
    assert!(code == 69 || took < Duration::from_secs(2), "{took:?}");
    assert_eq!(house.json(&["show", "a"])["in_use"], 0);
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_or_database_of_postgres_that_is_set_to_read_is_a_setting_to_mend() {
    let Some(place) = place::postgres().await else {
        return;
    };
    House::at(place.url()).text(&["create", "a", "1"]);
    let mut admin = Database::open(place.url()).await;
    let database = place.url().rsplit('/').next().unwrap();
    let set = |to| format!("ALTER DATABASE {database} SET default_transaction_read_only={to}");
    admin.run(&set("on")).await;
    let done = is_told(place.url(), 64, "default_transaction_read_only");
    assert!(!done.stderr.contains("later"), "{done:?}");
    let run = House::at(place.url()).done(&["run", "-s", "a", "--", "true"]);
    assert_eq!(run.code, 64, "{run:?}");
    admin.run(&set("off")).await;
    House::at(place.url()).text(&["acquire", "-s", "a"]);
    place.clear().await;
}

/// A failover may make it the primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_of_postgres_is_a_store_that_is_unavailable() {
    let Some(server) = PrivateServer::start("postgres") else {
        return;
    };
    let place = server.place().await;
    House::at(place.url()).text(&["create", "a", "1"]);
    server.restart_as_standby();
    let done = is_told(place.url(), 69, "the server is a standby");
    assert!(done.stderr.contains("connect to the primary"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_mysql_is_unavailable_and_read_only_transactions_are_a_setting_to_mend() {
    for name in ["mysql", "mariadb"] {
        let Some(server) = PrivateServer::start(name) else {
            return;
        };
        let place = server.place().await;
        House::at(place.url()).text(&["create", "a", "1"]);
        // An administrator may write in spite of read_only.
        let user = "CREATE USER app@'%'; GRANT ALL ON *.* TO app@'%'";
        let no_more = match name {
            "mysql" => "; REVOKE SUPER, CONNECTION_ADMIN ON *.* FROM app@'%'",
            _ => "; REVOKE SUPER, READ ONLY ADMIN ON *.* FROM app@'%'",
        };
        let mut admin = Database::open(place.url()).await;
        admin.run(&format!("{user}{no_more}")).await;
        let url = place.url().replace("root@", "app@");
        admin.run("SET GLOBAL read_only=ON").await;
        is_told(&url, 69, "the server is read-only");
        admin.run("SET GLOBAL read_only=OFF").await;
        let variable = match name {
            "mysql" => "transaction_read_only",
            _ => "tx_read_only",
        };
        admin.run(&format!("SET GLOBAL {variable}=ON")).await;
        is_told(&url, 64, variable);
    }
}
