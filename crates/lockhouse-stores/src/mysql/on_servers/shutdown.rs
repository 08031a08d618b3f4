//! Connections that are given back while the runtime shuts down.

use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Builder;

use super::{MYSQL, database, lend, remove, run, server};
use crate::MySql;

/// A runtime that shuts down drops each new task at once. The task that closes idle connections takes the
/// pool's lock when it is dropped, so it must not be spawned under that lock.
#[test]
fn a_connection_given_back_during_shutdown_does_not_deadlock() {
    let Some(base) = server(MYSQL) else { return };
    let runtime = || {
        let mut builder = Builder::new_multi_thread();
        // While one runs the task, the other shuts down.
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    let outer = runtime();
    let (name, _) = outer.block_on(database(&base));
    // None of its connections is watched yet.
    let store = MySql::open(&format!("{base}{name}")).unwrap();
    let ended = runtime();
    let (lent, is_lent) = mpsc::channel();
    let (returned, is_returned) = mpsc::channel();
    ended.spawn(async move {
        let mut lease = lend(&store, MYSQL).await;
        run(&mut lease, "SELECT 1").await;
        lent.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        drop(lease);
        returned.send(()).unwrap();
    });
    is_lent.recv().unwrap();
    ended.shutdown_background();
    let returned = is_returned.recv_timeout(Duration::from_secs(5));
    outer.block_on(remove(&base, &name));
    assert!(returned.is_ok(), "the connection was not given back");
}
