//! A report every hour, from a crontab on every machine, and never two at once.
//!
//! `LOCKHOUSE_URL=mysql://app@db/lockhouse cargo run --example cron`

#![allow(clippy::print_stdout)]

use std::error::Error;

use lockhouse::{Code, Lockhouse};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("LOCKHOUSE_URL").unwrap_or("memory:".into());
    match run(&url).await? {
        true => println!("reported"),
        false => println!("the last report still runs; nothing to do"),
    }
    Ok(())
}

/// Reports, unless somebody does already; whether it did.
pub async fn run(url: &str) -> Result<bool> {
    let lockhouse = Lockhouse::connect(url).await?;
    let permit = match lockhouse.mutex("hourly-report").try_lock().await {
        Ok(permit) => permit,
        Err(error) if error.code() == Code::Exhausted => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    tokio::select! {
        lost = permit.lost() => return Err(format!("the report was broken off: {lost}").into()),
        () = report() => {}
    }
    permit.release().await?;
    Ok(true)
}

async fn report() {
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
}
