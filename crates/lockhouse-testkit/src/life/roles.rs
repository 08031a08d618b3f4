//! The roles that the processes of the runs have.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use lockhouse::{Lockhouse, Permit};
use tokio::task::JoinSet;

use super::processes::until_stdin_ends;

/// The main function of such a process.
pub async fn main(arguments: &[String]) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["hold", url, semaphore, prefix, count, ttl_ms] => {
            hold(url, semaphore, prefix, count, ttl_ms).await;
        }
        ["wait", url, semaphore, prefix, count] => wait(url, semaphore, prefix, count).await,
        _ => panic!("no process does {arguments:?}"),
    }
}

/// Holds `count` permits until it is killed.
async fn hold(url: &str, semaphore: &str, prefix: &str, count: &str, ttl_ms: &str) {
    let lockhouse = Lockhouse::connect(url).await.unwrap();
    let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
    let ask = |i| {
        let ask = lockhouse.request_with_id(format!("{prefix}-{i}"));
        ask.permits(semaphore, 1).ttl(ttl).acquire()
    };
    let count: u32 = count.parse().unwrap();
    let held = try_join_all((0..count).map(ask)).await.unwrap();
    println!("held");
    let lost = join_all(held.iter().map(Permit::lost)).await;
    panic!("{prefix} lost {lost:?}");
}

/// Waits for `count` permits, and holds them until stdin ends.
async fn wait(url: &str, semaphore: &str, prefix: &str, count: &str) {
    let lockhouse = Lockhouse::connect(url).await.unwrap();
    println!("waiting");
    let mut waiting = JoinSet::new();
    for i in 0..count.parse::<u32>().unwrap() {
        let id = format!("{prefix}-{i}");
        let ask = lockhouse
            .request_with_id(id)
            .permits(semaphore, 1)
            .acquire();
        waiting.spawn(ask);
    }
    let mut held = Vec::new();
    while let Some(permit) = waiting.join_next().await {
        held.push(permit.unwrap().unwrap());
        println!("served");
    }
    until_stdin_ends().await;
    for permit in held {
        permit.release().await.unwrap();
    }
}
