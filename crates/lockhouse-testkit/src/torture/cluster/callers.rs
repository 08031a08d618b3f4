//! *held* and *finish* on a cluster. A caller's transaction runs at the node that Lockhouse uses, or at another node. At the
//! same time Lockhouse releases the request, renews it, or finds its expiry for a waiter.
//!
//! The caller also writes a row in a table of its application, in the same transaction. That row exists if and only if the
//! caller's commit ended the request.

use std::fmt;
use std::time::Duration;

use lockhouse::caller::{SqlDialect, finish_sql, held_sql};
use lockhouse::{Code, EndReason, ExternalId, Lockhouse};
use tokio::time::{Instant, sleep, timeout};

use super::nodes::Nodes;
use crate::database::{Database, Value};

const SEMAPHORE: &str = "callers";

/// How many transactions of each kind there are.
const ROUNDS: u32 = 50;

/// How long any step may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longer than a round.
const LONG: Duration = Duration::from_secs(600);

/// A TTL that ends within a round.
const SHORT: Duration = Duration::from_millis(300);

/// The caller's commit and Lockhouse's call both come within so many milliseconds.
const AT_ONCE_MS: u64 = 12;

/// The commit comes within so many milliseconds around the expiry, mostly after it.
const AROUND_MS: u64 = 160;

/// The call of Lockhouse at its node while the caller's transaction is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Release,
    Renewal,
    /// The request expires while a waiter wants its permit.
    Expiry,
    /// No call until after the commit.
    Nothing,
}

/// The outcomes of the rounds of a kind.
#[derive(Debug, Default)]
struct Tally {
    rounds: u32,
    committed: u32,
    /// How often the caller's node had not applied the grant yet.
    early: u32,
    /// The different errors of failed commits, shortened.
    errors: Vec<String>,
}

impl Tally {
    fn note(&mut self, committed: &Result<(), String>) {
        self.rounds += 1;
        match committed {
            Ok(()) => self.committed += 1,
            Err(error) => {
                let error = error.chars().take(60).collect();
                if !self.errors.contains(&error) {
                    self.errors.push(error);
                }
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.rounds - self.committed;
        write!(
            f,
            "{} rounds, {} commits, {failed} failed {:?}, {} times the grant came late",
            self.rounds, self.committed, self.errors, self.early
        )
    }
}

/// A caller's connection to a node.
struct Caller {
    database: Database,
    dialect: SqlDialect,
    url: String,
}

impl Caller {
    async fn at(url: &str) -> Self {
        let mut database = Database::open(url).await;
        let dialect = database.dialect().await;
        Self {
            database,
            dialect,
            url: url.to_owned(),
        }
    }

    /// Begins a transaction that pays for `id` if it is held.
    async fn begin(&mut self, statement: &str, id: &str) -> Result<bool, String> {
        let id = [Value::Text(id)];
        self.database.begin().await;
        self.database
            .execute("INSERT INTO callers_payment VALUES (?)", &id)
            .await?;
        Ok(self.database.execute(statement, &id).await? == 1)
    }

    async fn end(&mut self, how: &str) -> Result<(), String> {
        self.database.execute(how, &[]).await.map(drop)
    }

    /// The connection breaks, and another is opened.
    async fn die(&mut self) {
        self.database = Database::open(&self.url).await;
    }

    async fn has_paid(&mut self, id: &str) -> bool {
        let sql = format!("SELECT COUNT(*) FROM callers_payment WHERE id='{id}'");
        self.database.number(&sql).await == 1
    }
}

/// The rounds, and their failures.
struct Rounds {
    lockhouse: Lockhouse,
    payments: Caller,
    random: fastrand::Rng,
    number: u32,
    wrong: Vec<String>,
}

/// Does the rounds of each kind, and reports them on stderr. Returns the failures, in words.
///
/// # Panics
/// If a node refuses a command.
pub(super) async fn callers(nodes: &Nodes, seed: u64) -> Vec<String> {
    let home = nodes.url(0);
    let lockhouse = Lockhouse::connect(&home).await.unwrap();
    lockhouse.define(SEMAPHORE, 1).await.unwrap();
    let mut payments = Caller::at(&home).await;
    let create = "DROP TABLE IF EXISTS callers_payment; \
        CREATE TABLE callers_payment (id VARCHAR(64) PRIMARY KEY)";
    payments.database.run(create).await;
    let mut all = Rounds {
        lockhouse,
        payments,
        random: fastrand::Rng::with_seed(seed),
        number: 0,
        wrong: Vec::new(),
    };
    for (node, at) in [(0, "Lockhouse's node"), (1, "another node")] {
        let mut caller = Caller::at(&nodes.url(node)).await;
        for meanwhile in [
            Meanwhile::Release,
            Meanwhile::Renewal,
            Meanwhile::Expiry,
            Meanwhile::Nothing,
        ] {
            let tally = all.finish(&mut caller, meanwhile).await;
            eprintln!("  finish at {at}, {meanwhile:?}: {tally}");
        }
        for dies in [false, true] {
            all.give_up(&mut caller, dies).await;
        }
        let (tally, lost) = all.held(&mut caller, node == 0).await;
        eprintln!("  held at {at}, Release: {tally}; {lost} commits after the end");
    }
    all.wrong.extend(nodes.findings().await);
    all.wrong
}

impl Rounds {
    /// Acquires a request that nobody renews. Returns its id.
    async fn grant(&mut self, ttl: Duration) -> String {
        let since = Instant::now();
        loop {
            self.number += 1;
            let id = format!("caller-{}", self.number);
            let request = self.lockhouse.request_with_id(&id).permits(SEMAPHORE, 1);
            match request.ttl(ttl).wait(PATIENCE).acquire().await {
                Ok(permit) => {
                    permit.forget();
                    return id;
                }
                // The machine is so busy that the grant expired before it was answered.
                Err(error) if error.code() == Code::RequestEnded && since.elapsed() < PATIENCE => {}
                Err(error) => panic!("{id}: {error}"),
            }
        }
    }

    /// A transaction in which `statement` has succeeded. A node that lags does not have the request at first.
    async fn begin(&mut self, caller: &mut Caller, statement: &str, id: &str, tally: &mut Tally) {
        let since = Instant::now();
        while caller.begin(statement, id).await != Ok(true) {
            assert!(since.elapsed() < PATIENCE, "{id} does not come");
            tally.early += 1;
            let _ = caller.end("ROLLBACK").await;
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn finish(&mut self, caller: &mut Caller, meanwhile: Meanwhile) -> Tally {
        let mut tally = Tally::default();
        let ttl = match meanwhile {
            Meanwhile::Expiry => SHORT,
            _ => LONG,
        };
        for _ in 0..ROUNDS {
            let id = self.grant(ttl).await;
            let granted = Instant::now();
            self.begin(caller, finish_sql(caller.dialect), &id, &mut tally)
                .await;
            if meanwhile == Meanwhile::Expiry && granted.elapsed() >= ttl {
                // The machine was too busy for this round.
                let _ = caller.end("ROLLBACK").await;
                continue;
            }
            let wrong = self.one_end(caller, meanwhile, &id, &mut tally).await;
            let wrong = wrong.map(|wrong| format!("finish, {meanwhile:?}, {id}: {wrong}"));
            self.wrong.extend(wrong);
        }
        tally
    }

    /// Commits, while Lockhouse does something. Returns the faults in the outcome.
    async fn one_end(
        &mut self,
        caller: &mut Caller,
        meanwhile: Meanwhile,
        id: &str,
        tally: &mut Tally,
    ) -> Option<String> {
        let lockhouse = self.lockhouse.clone();
        let [first, second] =
            [(); 2].map(|()| Duration::from_millis(self.random.u64(..AT_ONCE_MS)));
        let late = match meanwhile {
            Meanwhile::Expiry => {
                let around = Duration::from_millis(self.random.u64(..AROUND_MS));
                SHORT + around - Duration::from_millis(AROUND_MS / 4)
            }
            _ => Duration::ZERO,
        };
        let by_lockhouse = async {
            sleep(first).await;
            let done = match meanwhile {
                Meanwhile::Release => lockhouse.release(id).await.map(|end| end.now),
                Meanwhile::Renewal => Ok(lockhouse.renew(id, None).await.is_ok()),
                Meanwhile::Expiry => {
                    let semaphore = lockhouse.semaphore(SEMAPHORE);
                    semaphore.acquire().await.map(|permit| {
                        drop(permit);
                        true
                    })
                }
                Meanwhile::Nothing => Ok(false),
            };
            (done.unwrap(), Instant::now())
        };
        let by_caller = async {
            sleep(late + second).await;
            let since = Instant::now();
            (caller.end("COMMIT").await, since)
        };
        let both = async { tokio::join!(by_lockhouse, by_caller) };
        let ((did, at), (committed, since)) = timeout(PATIENCE, both).await.ok()?;
        tally.note(&committed);
        if committed.is_err() {
            let _ = caller.end("ROLLBACK").await;
        }
        // The next call on a finished request finds it ended.
        let left = self.lockhouse.release(id).await.unwrap().now;
        let reason = self.lockhouse.find(id).await.unwrap().end_reason();
        let is_paid = self.is_paid(id, committed.is_ok()).await;
        let wrong = match (meanwhile, committed.is_ok()) {
            (_, paid) if paid != is_paid => Some("the commit was answered falsely"),
            (_, true) if reason != Some(EndReason::Released) => {
                Some("the request was finished, and is live")
            }
            (Meanwhile::Release, committed) if did == committed => {
                Some("the request ended twice, or never")
            }
            (Meanwhile::Renewal, committed) if did == committed => {
                Some("the request was renewed and ended, or neither")
            }
            (Meanwhile::Expiry, true) if at < since => {
                Some("the permit was granted again before the commit")
            }
            (Meanwhile::Expiry, false) if reason != Some(EndReason::Expired) => {
                Some("the request neither finished nor expired")
            }
            (Meanwhile::Nothing, false) => Some("the commit failed without a conflict"),
            _ => None,
        };
        let may_be_left = meanwhile == Meanwhile::Renewal && committed.is_err();
        let wrong = wrong
            .or((left != may_be_left).then_some("the request is wrongly held, or wrongly ended"));
        wrong.map(|wrong| format!("{wrong}: {committed:?}, {did}, {reason:?}, paid {is_paid}"))
    }

    /// Whether the caller's row exists at Lockhouse's node, which may lag.
    async fn is_paid(&mut self, id: &str, is_expected: bool) -> bool {
        let since = Instant::now();
        loop {
            let paid = self.payments.has_paid(id).await;
            if paid || !is_expected || since.elapsed() > PATIENCE {
                return paid;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The caller rolls back, or dies. The request is held as before.
    async fn give_up(&mut self, caller: &mut Caller, dies: bool) {
        let mut tally = Tally::default();
        for _ in 0..ROUNDS {
            let id = self.grant(LONG).await;
            self.begin(caller, finish_sql(caller.dialect), &id, &mut tally)
                .await;
            match dies {
                true => caller.die().await,
                false => caller.end("ROLLBACK").await.unwrap(),
            }
            let released = timeout(PATIENCE, self.lockhouse.release(&id)).await;
            if !released.is_ok_and(|end| end.unwrap().now) || self.is_paid(&id, false).await {
                self.wrong
                    .push(format!("{id} was finished without a commit"));
            }
        }
    }

    /// Counts commits after the request had ended, which are wrong at Lockhouse's node. The caller commits at the answer to
    /// the release, or soon after it.
    async fn held(&mut self, caller: &mut Caller, at_home: bool) -> (Tally, u32) {
        let (mut tally, mut lost) = (Tally::default(), 0);
        for _ in 0..ROUNDS {
            let id = self.grant(LONG).await;
            self.begin(caller, held_sql(caller.dialect), &id, &mut tally)
                .await;
            let lockhouse = self.lockhouse.clone();
            let of = ExternalId::parse(id.as_str()).unwrap();
            let mut release = tokio::spawn(async move {
                let end = lockhouse.release(of.as_str()).await.unwrap();
                (end.now, Instant::now())
            });
            let early = timeout(Duration::from_millis(300), &mut release).await;
            let since = Instant::now();
            let committed = caller.end("COMMIT").await;
            tally.note(&committed);
            if committed.is_err() {
                let _ = caller.end("ROLLBACK").await;
            }
            let ended_before = early.is_ok();
            if !ended_before {
                let (now, at) = timeout(PATIENCE, release).await.unwrap().unwrap();
                assert!(now && at >= since, "{id}");
            }
            let is_lost = ended_before && committed.is_ok();
            lost += u32::from(is_lost);
            if at_home && (ended_before || committed.is_err()) {
                self.wrong.push(format!(
                    "held at Lockhouse's node, {id}: {committed:?}, ended before: {ended_before}"
                ));
            }
        }
        (tally, lost)
    }
}
