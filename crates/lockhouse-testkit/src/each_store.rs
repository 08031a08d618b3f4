//! Stamps one test a store.

/// For each `async fn test(place: Place)` named, a test on each store whose rows can be looked at:
/// `test::sqlite`, and so on. After `servers`, only on those with a server, and so a clock, of
/// their own.
#[macro_export]
macro_rules! on_each_store {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            $crate::on_each_store!(@ $test: sqlite, mysql, mariadb, postgres);
        }
    )+};
    (servers: $($test:ident),+ $(,)?) => {$(
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
