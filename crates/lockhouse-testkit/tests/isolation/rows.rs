//! Rows, and gaps between them, that an application keeps locked.

use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::Place;

/// How many rows of a kind are locked.
pub(crate) const LOCKED: usize = 3;

pub(crate) const STRANGERS: usize = 16;

/// The kinds of rows that are locked.
#[derive(Clone, Copy)]
pub(crate) enum Rows {
    Requests,
    Semaphores,
    Sessions,
    /// Semaphores that a template created.
    Keys,
    /// Two templates, and the row of the store's epoch.
    Templates,
    /// Gaps between two requests, each by a read of an id that does not exist.
    Gaps,
    /// The gap between two names of semaphores.
    NameGap,
    /// The gap between two owners with sessions.
    OwnerGap,
    /// The gap between two patterns of templates.
    PatternGap,
}

impl Rows {
    fn is_gap(self) -> bool {
        matches!(
            self,
            Rows::Gaps | Rows::NameGap | Rows::OwnerGap | Rows::PatternGap
        )
    }

    /// How many rows or gaps are locked.
    pub(crate) fn many(self) -> usize {
        match self {
            Rows::NameGap | Rows::OwnerGap | Rows::PatternGap => 1,
            _ => LOCKED,
        }
    }

    /// The statement that locks the row of `number`, as far as the kinds of servers agree on it.
    fn lock(self, place: &Place, number: usize) -> String {
        let is_postgres = place.url().starts_with("postgres");
        // A scan of a small table would lock all of it.
        let (share, by) = match is_postgres {
            true => ("FOR SHARE", ["", "", ""]),
            false => (
                "LOCK IN SHARE MODE",
                [
                    "FORCE INDEX (external_id)",
                    "FORCE INDEX (name)",
                    "FORCE INDEX (PRIMARY)",
                ],
            ),
        };
        match self {
            Rows::Requests => format!(
                "SELECT id FROM lockhouse_permit_request {} \
                 WHERE external_id='held-{number}' {share}",
                by[0]
            ),
            Rows::Semaphores => format!(
                "SELECT id FROM lockhouse_semaphore {} WHERE name='locked-{number}' FOR UPDATE",
                by[1]
            ),
            Rows::Gaps => format!(
                "SELECT id FROM lockhouse_permit_request {} \
                 WHERE external_id='gap-{number}-m' {share}",
                by[0]
            ),
            Rows::NameGap => format!(
                "SELECT id FROM lockhouse_semaphore {} WHERE name='new/m' FOR UPDATE",
                by[1]
            ),
            Rows::OwnerGap => format!(
                "SELECT owner FROM lockhouse_owner_session {} WHERE owner='owner-m' FOR UPDATE",
                by[2]
            ),
            Rows::PatternGap => {
                "SELECT pattern FROM lockhouse_template WHERE pattern='new/m*' FOR UPDATE".into()
            }
            Rows::Sessions => format!(
                "SELECT owner FROM lockhouse_owner_session {} \
                 WHERE owner='owner-{number}' FOR UPDATE",
                by[2]
            ),
            Rows::Keys => format!(
                "SELECT id FROM lockhouse_semaphore {} WHERE name='key-{number}/locked' FOR UPDATE",
                by[1]
            ),
            Rows::Templates if number == 0 => format!(
                "SELECT id FROM lockhouse_semaphore {} WHERE name='lockhouse:epoch' FOR UPDATE",
                by[1]
            ),
            Rows::Templates => format!(
                "SELECT pattern FROM lockhouse_template WHERE pattern='key-{number}/*' FOR UPDATE"
            ),
        }
    }
}

/// A session that keeps the row of `number` locked.
pub(crate) async fn lock(place: &Place, rows: Rows, number: usize) -> Database {
    let mut session = Database::open(place.url()).await;
    let level = match rows.is_gap() {
        true => "REPEATABLE READ",
        // At REPEATABLE READ, MariaDB locks the gap before the row too.
        false => "READ COMMITTED",
    };
    session.run(&isolation(place, level)).await;
    session.run("START TRANSACTION").await;
    session.run(&rows.lock(place, number)).await;
    session
}

/// The statement that locks the row of `number`.
pub(crate) fn lock_statement(place: &Place, rows: Rows, number: usize) -> String {
    rows.lock(place, number)
}

fn isolation(place: &Place, level: &str) -> String {
    let characteristics = match place.url().starts_with("postgres") {
        true => "CHARACTERISTICS AS ",
        false => "",
    };
    format!("SET SESSION {characteristics}TRANSACTION ISOLATION LEVEL {level}")
}

pub(crate) async fn set_up(lockhouse: &Lockhouse) {
    lockhouse.raise_epoch(None).await.unwrap();
    lockhouse.define("all", 1_000).await.unwrap();
    lockhouse.template("new/*", 20).await.unwrap();
    for end in ["new/a", "new/z"] {
        lockhouse.define(end, 20).await.unwrap();
    }
    for end in ["owner-a", "owner-z"] {
        let ttl = Duration::from_secs(600);
        lockhouse.heartbeat(end, ttl).await.unwrap();
    }
    for number in 0..STRANGERS {
        lockhouse
            .define(format!("stranger-{number}"), 8)
            .await
            .unwrap();
    }
    for number in 0..LOCKED {
        let name = format!("locked-{number}");
        lockhouse.define(&name, 20).await.unwrap();
        let pattern = format!("key-{number}/*");
        lockhouse.template(pattern, 20).await.unwrap();
        let key = lockhouse.semaphore(format!("key-{number}/locked"));
        key.try_acquire().await.unwrap().release().await.unwrap();
        let owner = format!("owner-{number}");
        lockhouse
            .heartbeat(&owner, Duration::from_secs(600))
            .await
            .unwrap();
        let held = lockhouse
            .request_with_id(format!("held-{number}"))
            .permits(&name, 1);
        held.owner(&owner)
            .ttl(Duration::from_secs(600))
            .try_acquire()
            .await
            .unwrap()
            .forget();
        let beside = (0..2).map(|engine| format!("beside-{engine}-{number}"));
        let ends = ["a", "z"].map(|end| format!("gap-{number}-{end}"));
        for id in beside.chain(ends) {
            let beside = lockhouse.request_with_id(id).permits(&name, 1);
            beside
                .ttl(Duration::from_secs(600))
                .try_acquire()
                .await
                .unwrap()
                .forget();
        }
    }
}
