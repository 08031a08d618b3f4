//! The parts of a run. Each process does one of them.

use std::io::BufRead as _;
use std::time::Duration;

use lockhouse::Upkeep;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::client::Home;
use super::console::Console;
use super::segment::STALE_AFTER;
use crate::broken;
use crate::statement::is_postgres;

/// How many locks a storm asks for at once.
const STORMS: u64 = 4;

/// Runs the part that `arguments` name, until stdin ends or the process is killed.
pub async fn main(arguments: &[String]) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [
            "client",
            run,
            number,
            tasks,
            rest_ms,
            seed,
            segment,
            ref urls @ ..,
        ] => {
            let home = Home {
                urls: urls.iter().map(|url| (*url).to_owned()).collect(),
                run: run.into(),
                number: number.parse().unwrap(),
                tasks: tasks.parse().unwrap(),
                rest_ms: rest_ms.parse().unwrap(),
                seed: seed.parse().unwrap(),
            };
            home.live(segment.parse().unwrap()).await;
        }
        ["serve", url] => serve(url).await,
        ["greedy", url] => greedy(url).await,
        ["storm", url] => storm(url).await,
        ["time"] => time().await,
        _ => panic!("no process does {arguments:?}"),
    }
}

/// The upkeep of servers. The run purges, since only it knows which rows are checked already.
pub(super) fn upkeep() -> Upkeep {
    Upkeep {
        sweep_every: Duration::from_secs(2),
        stale_after: STALE_AFTER,
        ..Upkeep::default()
    }
}

/// A server on a free port, which it prints.
async fn serve(url: &str) {
    let lockhouse = loop {
        match broken::connect(url).await {
            Ok(lockhouse) => break lockhouse,
            Err(error) => eprintln!("server: {error}"),
        }
        sleep(Duration::from_millis(100)).await;
    };
    let _maintaining = lockhouse.maintain(upkeep()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    lockhouse_server::serve(lockhouse, listener, stdin_ends())
        .await
        .unwrap();
}

/// Takes as many connections as it gets.
async fn greedy(url: &str) {
    let mut taken = Vec::new();
    let over = stdin_ends();
    tokio::pin!(over);
    loop {
        tokio::select! {
            _ = &mut over => return,
            connected = Console::connect(url) => match connected {
                Ok(connection) => taken.push(connection),
                // Another process may close a connection meanwhile.
                Err(_) => sleep(Duration::from_millis(20)).await,
            },
        }
        println!("{}", taken.len());
    }
}

/// Locks rows of Lockhouse's tables in odd orders, and rolls back.
async fn storm(url: &str) {
    let storms = (0..STORMS).map(|nth| async move {
        let mut random = fastrand::Rng::with_seed(nth);
        loop {
            if url.starts_with("sqlite:") {
                hog(url, &mut random).await;
            } else {
                rage(url, &mut random).await;
            }
        }
    });
    tokio::select! {
        _ = futures_util::future::join_all(storms) => {}
        _ = stdin_ends() => {}
    }
}

/// Prints SQLite's time.
async fn time() {
    let sqlite = rusqlite::Connection::open_in_memory().unwrap();
    let query = "SELECT strftime('%s', 'now')";
    let now: String = sqlite.query_row(query, [], |row| row.get(0)).unwrap();
    println!("{now}");
    stdin_ends().await;
}

async fn rage(url: &str, random: &mut fastrand::Rng) {
    let Ok(mut sql) = Console::connect(url).await else {
        return sleep(Duration::from_millis(100)).await;
    };
    let wait = if is_postgres(url) {
        "SET lock_timeout = '500ms'"
    } else {
        "SET innodb_lock_wait_timeout = 1"
    };
    let _ = sql.run(wait).await;
    for _ in 0..50 {
        let order = *random.choice(&["DESC", "ASC"]).unwrap();
        let rows = random.u8(1..=9);
        let semaphores = format!(
            "SELECT id FROM lockhouse_semaphore ORDER BY id {order} LIMIT {rows} FOR UPDATE"
        );
        let requests = format!(
            "SELECT id FROM lockhouse_permit_request WHERE state = 'ACQUIRED' \
             ORDER BY id {order} LIMIT {rows} FOR UPDATE"
        );
        let mut locks = [semaphores, requests];
        random.shuffle(&mut locks);
        let _ = sql.run("BEGIN").await;
        for lock in &locks {
            let _ = sql.run(lock).await;
            sleep(Duration::from_millis(random.u64(0..8))).await;
        }
        let _ = sql.run("ROLLBACK").await;
        sleep(Duration::from_millis(random.u64(0..20))).await;
    }
}

/// Takes SQLite's only lock.
async fn hog(url: &str, random: &mut fastrand::Rng) {
    let path = url.trim_start_matches("sqlite:");
    let Ok(connection) = rusqlite::Connection::open(path) else {
        return;
    };
    let begun = connection.execute_batch("BEGIN IMMEDIATE");
    sleep(Duration::from_millis(random.u64(0..80))).await;
    if begun.is_ok() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    sleep(Duration::from_millis(random.u64(0..50))).await;
}

async fn stdin_ends() {
    let (end, ended) = oneshot::channel();
    // This needs a separate thread, as the runtime would wait for a thread of its pool.
    std::thread::spawn(move || {
        std::io::stdin()
            .lock()
            .lines()
            .map_while(Result::ok)
            .count();
        let _ = end.send(());
    });
    let _ = ended.await;
}
