//! Stamps one test a store.

/// For each `async fn test(place: Place)` named, a test on each store whose rows can be looked at:
/// `test::sqlite`, and so on. After `sql`, only on those that take SQL; after `servers`, only on those with a server, and so a clock, of
/// their own; after `row locks`, only on those that lock rows.
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
