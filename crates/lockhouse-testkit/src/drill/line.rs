//! Waiters at several clients, each with a separate engine (P11).

use std::time::Duration;

use futures_util::future::{join, join3};
use tokio::time::sleep;

use super::{Drill, LONG, SHORT, asked};
use crate::history::{Answer, Asked, Recorded};

/// A waiter that comes this much earlier than another is first at every client.
const APART: Duration = Duration::from_millis(1_200);

/// How long the holder keeps the permit that all wait for.
const HELD: Duration = Duration::from_millis(1_800);

/// How often the asks without a wait are repeated.
const TRIES: u32 = 40;

impl Drill {
    pub(super) async fn in_line(&self) {
        join3(self.queued(), self.urgent(), self.keyed()).await;
    }

    /// A waiter waits at another client than the holder. Long after it a waiter comes at the holder's client, which could hand
    /// over to that one. Meanwhile a third client tries again and again without a wait.
    async fn queued(&self) {
        let [one, two, three, ..] = &self.clients[..] else {
            unreachable!()
        };
        hold(one, "queue").await;
        let there = wait_for("queue", "queue-there", 0);
        let here = wait_for("queue", "queue-here", 0);
        let waiting = join(take(two, there, Duration::ZERO), take(one, here, APART));
        let ask = |id: &str| asked(id, &[("queue", 1)], None);
        let tries = try_often(three, "queue-try", ask, HELD - SHORT, SHORT / 10);
        join3(waiting, tries, give_back_later(one, "queue")).await;
    }

    /// A waiter at the holder's client, and a later one with a higher priority at another client.
    async fn urgent(&self) {
        let [one, two, ..] = &self.clients[..] else {
            unreachable!()
        };
        hold(one, "urgent").await;
        let there = wait_for("urgent", "urgent-there", 1);
        let here = wait_for("urgent", "urgent-here", 0);
        let waiting = join(take(two, there, SHORT), take(one, here, Duration::ZERO));
        join(waiting, give_back_later(one, "urgent")).await;
    }

    /// A customer's second request waits for its first. Meanwhile another customer's requests come.
    async fn keyed(&self) {
        let [one, two, three, ..] = &self.clients[..] else {
            unreachable!()
        };
        one.template("customer/*", 1, LONG).await;
        one.define("all", 3).await;
        let ask = |id: &str, customer: &str| asked(id, &[(customer, 1), ("all", 1)], None);
        one.acquire(ask("customer-a1", "customer/a"), Duration::ZERO)
            .await;
        let second = Asked {
            waits: true,
            ..ask("customer-a2", "customer/a")
        };
        let other = async {
            let ask = |id: &str| ask(id, "customer/b");
            try_often(three, "customer-b", ask, Duration::ZERO, SHORT).await;
            one.release("customer-a1").await;
        };
        join(take(two, second, Duration::ZERO), other).await;
    }
}

/// Holds the only permit, under the semaphore's name.
async fn hold(client: &Recorded, name: &str) {
    client.define(name, 1).await;
    let ask = asked(name, &[(name, 1)], None);
    client.acquire(ask, Duration::ZERO).await;
}

async fn give_back_later(client: &Recorded, id: &str) {
    sleep(HELD).await;
    client.release(id).await;
}

/// Waits for a permit, and releases it at once.
async fn take(client: &Recorded, ask: Asked, after: Duration) {
    sleep(after).await;
    client.acquire(ask.clone(), Duration::from_secs(10)).await;
    client.release(&ask.id).await;
}

/// Repeats an ask without a wait, with pauses of `every`, and releases each permit at once.
async fn try_often(
    client: &Recorded,
    name: &str,
    ask: impl Fn(&str) -> Asked,
    after: Duration,
    every: Duration,
) {
    sleep(after).await;
    for nth in 0..TRIES {
        let id = format!("{name}-{nth}");
        let answer = client.acquire(ask(&id), Duration::ZERO).await;
        if matches!(answer, Answer::Granted { .. }) {
            client.release(&id).await;
        }
        sleep(every).await;
    }
}

fn wait_for(name: &str, id: &str, priority: i32) -> Asked {
    Asked {
        waits: true,
        priority,
        ..asked(id, &[(name, 1)], None)
    }
}
