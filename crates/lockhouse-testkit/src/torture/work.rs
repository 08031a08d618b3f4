//! Whether all are at work again: after a fault was mended, every server and every client that lives
//! must make a call that is answered, soon and without anybody's help.

use std::time::Duration;

use lockhouse::Lockhouse;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::crew::Crew;
use crate::history::now_us;

/// How soon.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// How long one that is late is waited for beyond that, to say how late it was.
const AT_MOST: Duration = Duration::from_secs(30);

/// How long the last of all took after `mended_us`; and those who were too late, in words.
pub(super) async fn at_work_since(crew: &Crew, mended_us: u64) -> (Duration, Vec<String>) {
    let mut servers = JoinSet::new();
    for (nth, server) in crew.servers.iter().enumerate() {
        let url = format!("http://{}", server.address);
        servers
            .spawn(async move { (format!("server {nth}"), server_works(&url, mended_us).await) });
    }
    let mut took = Vec::new();
    let mut waited_for: Vec<usize> = (0..crew.clients.len()).collect();
    while !waited_for.is_empty() && since(mended_us) < AT_MOST {
        waited_for.retain(|nth| {
            let client = &crew.clients[*nth];
            let works = client.says().last_us > mended_us;
            if works {
                took.push((format!("client {}", client.number), since(mended_us)));
            }
            !works
        });
        sleep(Duration::from_millis(20)).await;
    }
    for nth in waited_for {
        took.push((format!("client {}", crew.clients[nth].number), AT_MOST));
    }
    took.extend(servers.join_all().await);
    let longest = took.iter().map(|(_, took)| *took).max().unwrap_or_default();
    let late = took.into_iter().filter(|(_, took)| *took > SOON);
    let late = late.map(|(who, took)| format!("{who} was at work again after {took:.1?} only"));
    (longest, late.collect())
}

/// Whoever asks a server does so by a fresh connection, past every proxy.
async fn server_works(url: &str, mended_us: u64) -> Duration {
    while since(mended_us) < AT_MOST {
        let asked = async {
            let lockhouse = Lockhouse::connect(url).await.ok()?;
            lockhouse
                .heartbeat("probe", Duration::from_secs(5))
                .await
                .ok()
        };
        if timeout(Duration::from_secs(2), asked)
            .await
            .is_ok_and(|heard| heard.is_some())
        {
            return since(mended_us);
        }
        sleep(Duration::from_millis(50)).await;
    }
    AT_MOST
}

fn since(us: u64) -> Duration {
    Duration::from_micros(now_us().saturating_sub(us))
}
