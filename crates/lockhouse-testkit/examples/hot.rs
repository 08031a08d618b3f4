use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName};
use std::time::{Duration, Instant};
#[tokio::main(worker_threads = 2)]
async fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let lh = Lockhouse::connect(&a[0]).await.unwrap();
    let clients: usize = a[1].parse().unwrap();
    let secs: u64 = a[2].parse().unwrap();
    lh.migrate().await.ok();
    lh.define("hot", 1_000_000).await.unwrap();
    let until = Instant::now() + Duration::from_secs(secs);
    let run = std::process::id();
    let mut set = tokio::task::JoinSet::new();
    for c in 0..clients {
        let lh = lh.clone();
        set.spawn(async move {
            let mut n = 0u64;
            let mut lat = Vec::new();
            while Instant::now() < until {
                let id = ExternalId::parse(&format!("bench-{run}-{c}-{n}")).unwrap();
                let ask = Ask::new(
                    id.clone(),
                    [(SemaphoreName::parse("hot").unwrap(), Count::new(1).unwrap())],
                )
                .unwrap();
                let t = Instant::now();
                lh.acquire(ask, Duration::ZERO).await.unwrap();
                lat.push(t.elapsed());
                lh.release(&id).await.unwrap();
                n += 1;
            }
            (n, lat)
        });
    }
    let all = set.join_all().await;
    let n: u64 = all.iter().map(|a| a.0).sum();
    let mut lat: Vec<_> = all.into_iter().flat_map(|a| a.1).collect();
    lat.sort();
    let p = |q: f64| lat[((lat.len() - 1) as f64 * q) as usize];
    println!(
        "clients={clients} pairs/s={} p50={:?} p99={:?}",
        n / secs,
        p(0.5),
        p(0.99)
    );
}
