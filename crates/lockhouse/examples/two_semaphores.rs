//! A job that needs a GPU and two network slots takes both at once, or waits and holds neither.
//!
//! `LOCKHOUSE_URL=mysql://app@db/lockhouse cargo run --example two_semaphores`

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use lockhouse::Lockhouse;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("LOCKHOUSE_URL").unwrap_or("memory:".into());
    run(&url).await
}

/// Trains four models, two of which have room at a time.
pub async fn run(url: &str) -> Result<()> {
    let lockhouse = Lockhouse::connect(url).await?;
    lockhouse.define("gpu", 2).await?;
    lockhouse.define("network", 5).await?;
    let all = (0..4).map(|model| train(&lockhouse, model));
    futures_util::future::try_join_all(all).await?;
    lockhouse.close().await;
    Ok(())
}

/// The order of the names is of no account: nobody who holds one waits for the other.
async fn train(lockhouse: &Lockhouse, model: u32) -> Result<()> {
    let ask = lockhouse.request().permits("network", 2).permits("gpu", 1);
    let permit = ask.wait(Duration::from_secs(30)).acquire().await?;
    let (gpu, network) = (permit.fence("gpu"), permit.fence("network"));
    println!("model {model} trains under fences {gpu} and {network}");
    tokio::select! {
        lost = permit.lost() => return Err(format!("model {model} stops: {lost}").into()),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    permit.release().await?;
    Ok(())
}
