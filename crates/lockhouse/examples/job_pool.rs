//! Jobs on any number of machines, and three of them at a time.
//!
//! `LOCKHOUSE_URL=mysql://app@db/lockhouse cargo run --example job_pool`, as often as you like at
//! once.

#![allow(clippy::print_stdout)]

use std::error::Error;

use lockhouse::{Lockhouse, Permit};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("LOCKHOUSE_URL").unwrap_or("memory:".into());
    println!("{} jobs done", run(&url).await?);
    Ok(())
}

/// Does twelve jobs; how many were done.
pub async fn run(url: &str) -> Result<usize> {
    let lockhouse = Lockhouse::connect(url).await?;
    lockhouse.define("job-slots", 3).await?;
    let slots = lockhouse.semaphore("job-slots");
    let mut jobs = JoinSet::new();
    for job in 0..12 {
        let slots = slots.clone();
        jobs.spawn(async move {
            let permit = slots.acquire_owned().await?;
            do_job(job, &permit).await?;
            permit.release().await?;
            Ok(())
        });
    }
    let done: Result<Vec<()>> = jobs.join_all().await.into_iter().collect();
    // The permits that failed jobs dropped are released.
    lockhouse.close().await;
    Ok(done?.len())
}

/// A job goes no further once its permit is lost: another may have it by then.
async fn do_job(job: u32, permit: &Permit) -> Result<()> {
    tokio::select! {
        lost = permit.lost() => Err(format!("job {job} lost its permit: {lost}").into()),
        () = work() => Ok(()),
    }
}

async fn work() {
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
}
