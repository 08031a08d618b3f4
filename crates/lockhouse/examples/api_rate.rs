//! Calls to an API that allows five a second, from any number of machines.
//!
//! A permit that nobody gives back comes back by itself, a second later. So in no second are there
//! more than five grants to all machines together. Further callers wait.
//!
//! `LOCKHOUSE_URL=mysql://app@db/lockhouse cargo run --example api_rate`

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

/// Calls twelve times.
pub async fn run(url: &str) -> Result<()> {
    let lockhouse = Lockhouse::connect(url).await?;
    lockhouse.define("weather-api", 5).await?;
    for city in 0..12 {
        let ask = lockhouse.request().permits("weather-api", 1);
        let permit = ask.ttl(Duration::from_secs(1)).acquire().await?;
        permit.forget();
        call(city).await;
    }
    Ok(())
}

async fn call(city: u32) {
    println!("the weather in city {city}, please");
}
