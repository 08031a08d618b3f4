//! The README's snippet, compiled. A test compares the two.

use std::time::Duration;

use lockhouse::Lockhouse;

#[tokio::main]
async fn main() -> Result<(), lockhouse::Error> {
    let lockhouse = Lockhouse::connect("mysql://app@db/lockhouse").await?; // or postgres://…, sqlite:…
    lockhouse.define("backup-slots", 10).await?;
    lockhouse.define("network", 5).await?;

    // One permit: waits its turn, renews itself, is given back on drop.
    let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    drop(permit);

    // All or nothing over several, with an id to retry by.
    let permit = lockhouse
        .request_with_id("job-abc-123")
        .permits("backup-slots", 1)
        .permits("network", 2)
        .ttl(Duration::from_secs(60))
        .wait(Duration::from_secs(30))
        .acquire()
        .await?;
    upload(permit.fence("network")).await?;
    permit.release().await?;
    Ok(())
}

/// The work, which hands the fence on to what it writes to.
async fn upload(_fence: u64) -> Result<(), lockhouse::Error> {
    Ok(())
}
