//! Makes one test for each store.

/// For each named `async fn test(place: Place)`, makes a test on SQLite, MySQL, MariaDB, PostgreSQL and Redis:
/// `test::sqlite`, and so on.
///
/// - After `sql:` only on stores that take SQL.
/// - After `servers:` only on stores that take the time from a server.
/// - After `row locks:` only on stores that lock rows.
///
/// MariaDB 11, PostgreSQL 18 and Valkey run the conformance suites and contention alone: they share the code of the stores
/// here. A new store is added to each list that it belongs to.
#[macro_export]
macro_rules! on_each_store {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            $crate::on_each_store!(@ $test: sqlite, mysql, mariadb, postgres, redis);
        }
    )+};
    (sql: $($test:ident),+ $(,)?) => {$(
        mod $test {
            $crate::on_each_store!(@ $test: sqlite, mysql, mariadb, postgres);
        }
    )+};
    (servers: $($test:ident),+ $(,)?) => {$(
        mod $test {
            $crate::on_each_store!(@ $test: mysql, mariadb, postgres, redis);
        }
    )+};
    (row locks: $($test:ident),+ $(,)?) => {$(
        mod $test {
            $crate::on_each_store!(@ $test: mysql, mariadb, postgres);
        }
    )+};
    (@ $test:ident: $($store:ident),+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $store() {
            if let Some(place) = $crate::place::$store().await {
                super::$test(place).await;
            }
        }
    )+};
}
