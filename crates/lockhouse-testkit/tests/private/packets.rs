//! A server that takes little SQL at once.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Code, Lockhouse};
use lockhouse_testkit::place::Place;
use lockhouse_testkit::private_server::PrivateServer;

/// Just enough for each command alone.
const SMALL: &str = "SET GLOBAL max_allowed_packet=16384";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_fit_a_small_packet_of_mysql() {
    batches_fit_a_small_packet("mysql").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_fit_a_small_packet_of_mariadb() {
    batches_fit_a_small_packet("mariadb").await;
}

async fn batches_fit_a_small_packet(server: &'static str) {
    let Some(server) = PrivateServer::start(server) else {
        return;
    };
    server.set(&[SMALL]).await;
    let place = server.place().await;
    let lockhouse = place.client().await;
    lockhouse.define("s", 100).await.unwrap();
    let long = "x".repeat(240);
    let asks = (0..100).map(|i| {
        let request = lockhouse
            .request_with_id(format!("{long}{i}"))
            .permits("s", 1);
        request.owner(&long).acquire()
    });
    let held: Vec<_> = join_all(asks)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 100);
    let released = join_all(held.into_iter().map(|permit| permit.release())).await;
    assert!(
        released
            .iter()
            .all(|released| released.as_ref().unwrap().now)
    );
    many_names_are_watched_in_pieces(&place, &lockhouse).await;
    one_ask_that_is_too_long_says_what_to_set(&lockhouse).await;
    place.clear().await;
}

/// One query looks for all waited-for semaphores by their names.
async fn many_names_are_watched_in_pieces(place: &Place, lockhouse: &Lockhouse) {
    let names: Vec<_> = (0..60).map(|i| format!("{}{i}", "w".repeat(200))).collect();
    let mut held = Vec::new();
    for name in &names {
        lockhouse.define(name, 1).await.unwrap();
        held.push(lockhouse.semaphore(name).acquire().await.unwrap());
    }
    let waits = names.iter().map(|name| {
        let request = lockhouse.request().permits(name, 1);
        request.wait(Duration::from_secs(60)).acquire()
    });
    // Another process releases them, so that only polling finds them.
    let given_back = async {
        while lockhouse.status(&names[59]).await.unwrap().waiting == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let other = place.client().await;
        for permit in held {
            other.release(permit.external_id()).await.unwrap();
            permit.forget();
        }
    };
    let (waited, ()) = tokio::join!(join_all(waits), given_back);
    assert!(waited.iter().all(Result::is_ok), "{waited:?}");
}

async fn one_ask_that_is_too_long_says_what_to_set(lockhouse: &Lockhouse) {
    let names: Vec<_> = (0..64).map(|i| format!("{}{i}", "n".repeat(250))).collect();
    for name in &names {
        lockhouse.define(name, 1).await.unwrap();
    }
    let request = names.iter().fold(lockhouse.request(), |request, name| {
        request.permits(name, 1)
    });
    let error = request.acquire().await.unwrap_err();
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    assert_eq!(error.code(), Code::InvalidRequest, "{error}");
}
