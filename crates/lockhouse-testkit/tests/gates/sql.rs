//! The gate as a table and a statement.

use std::thread;
use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_gate::{SqlDialect, sql};
use lockhouse_testkit::database::{Database, Value};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

on_each_store! { sql:
    a_lower_fence_is_refused_and_an_equal_one_passes,
    names_and_slots_have_a_gate_each,
    a_pass_that_is_rolled_back_is_forgotten,
    a_writer_paused_past_its_ttl_is_refused_at_capacity_1,
    a_writer_paused_past_its_ttl_is_refused_at_capacity_4,
    nothing_older_is_committed_after_the_highest_fence,
}

on_each_store! { row locks:
    a_newer_writer_waits_for_one_that_is_paused_before_its_commit,
}

const TTL: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(20);

/// A connection to the resource of the holders.
struct Resource {
    database: Database,
    dialect: SqlDialect,
}

impl Resource {
    async fn open(place: &Place) -> Self {
        let mut database = Database::open(place.url()).await;
        let dialect = database.dialect().await;
        database.run(sql::create_table(dialect)).await;
        Self { database, dialect }
    }

    async fn begin(&mut self) {
        let begin = match self.dialect {
            SqlDialect::Sqlite => "BEGIN IMMEDIATE",
            _ => "START TRANSACTION",
        };
        self.database.run(begin).await;
    }

    async fn end(&mut self, how: &str) {
        self.database.run(how).await;
    }

    /// Whether the fence passes. Any other error fails the test.
    async fn pass(&mut self, resource: &str, slot: u32, fence: u64) -> bool {
        let values = [
            Value::Text(resource),
            Value::Number(slot.into()),
            Value::Number(fence.try_into().unwrap()),
        ];
        let passed = self.database.execute(sql::pass(self.dialect), &values);
        match passed.await {
            Ok(_) => true,
            Err(error) if sql::is_stale(&error) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Passes the gate in a transaction, like a writer, or rolls back.
    async fn write(&mut self, resource: &str, slot: u32, fence: u64) -> bool {
        self.begin().await;
        let passed = self.pass(resource, slot, fence).await;
        let how = if passed { "COMMIT" } else { "ROLLBACK" };
        self.end(how).await;
        passed
    }
}

async fn a_lower_fence_is_refused_and_an_equal_one_passes(place: Place) {
    let mut resource = Resource::open(&place).await;
    for (fence, passes) in [
        (7, true),
        (7, true),
        (6, false),
        (9, true),
        (8, false),
        (9, true),
        (1, false),
        (0, false),
    ] {
        assert_eq!(resource.write("r", 0, fence).await, passes, "{fence}");
    }
    assert!(!resource.write("fresh", 0, 0).await, "no grant has fence 0");
    place.clear().await;
}

async fn names_and_slots_have_a_gate_each(place: Place) {
    let mut resource = Resource::open(&place).await;
    let long = "é".repeat(255);
    let names = [
        "report",
        "Report",
        "report ",
        "r\u{e9}port",
        "report'",
        &long,
    ];
    for (name, fence) in names.into_iter().zip((1..=6).rev()) {
        for slot in [0, 3, 4_095] {
            let fence = fence * 10 + u64::from(slot);
            assert!(resource.write(name, slot, fence).await, "{name} {slot}");
            assert!(!resource.write(name, slot, fence - 1).await);
        }
    }
    place.clear().await;
}

async fn a_pass_that_is_rolled_back_is_forgotten(place: Place) {
    let mut resource = Resource::open(&place).await;
    assert!(resource.write("r", 0, 4).await);
    resource.begin().await;
    assert!(resource.pass("r", 0, 9).await);
    resource.end("ROLLBACK").await;
    assert!(resource.write("r", 0, 5).await);
    place.clear().await;
}

async fn a_writer_paused_past_its_ttl_is_refused_at_capacity_1(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("report", 1).await.unwrap();
    let mut resource = Resource::open(&place).await;
    let (_, paused) = granted(&lockhouse, "report", "paused").await;
    assert!(resource.write("report", 0, paused).await, "in time");
    // A paused holder does not renew.
    let next = lockhouse.semaphore("report").acquire().await.unwrap();
    assert!(resource.write("report", 0, next.fence("report")).await);
    assert!(!resource.write("report", 0, paused).await, "too late");
    assert!(resource.write("report", 0, next.fence("report")).await);
    drop(next);
    drop(lockhouse);
    place.clear().await;
}

async fn a_writer_paused_past_its_ttl_is_refused_at_capacity_4(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("gpu", 4).slots().await.unwrap();
    let mut resource = Resource::open(&place).await;
    let (slot, paused) = granted(&lockhouse, "gpu", "paused").await;
    let mut holders = Vec::new();
    // The last holder is granted the slot that the paused holder has lost.
    for _ in 0..4 {
        holders.push(lockhouse.semaphore("gpu").acquire().await.unwrap());
    }
    for holder in holders.iter().rev() {
        let (slot, fence) = (holder.slots("gpu")[0], holder.fence("gpu"));
        let passed = resource.write("gpu", slot, fence).await;
        assert!(passed, "slot {slot}, despite the lower fence");
    }
    assert!(!resource.write("gpu", slot, paused).await, "too late");
    for holder in &holders {
        let (slot, fence) = (holder.slots("gpu")[0], holder.fence("gpu"));
        assert!(resource.write("gpu", slot, fence).await);
    }
    drop(holders);
    drop(lockhouse);
    place.clear().await;
}

/// The slot, or 0, and the fence of a grant that nobody renews.
async fn granted(lockhouse: &Lockhouse, semaphore: &str, id: &str) -> (u32, u64) {
    let request = lockhouse.request_with_id(id).permits(semaphore, 1).ttl(TTL);
    let permit = request.acquire().await.unwrap();
    let slot = permit.slots(semaphore).first().copied().unwrap_or(0);
    let fence = permit.fence(semaphore);
    permit.forget();
    (slot, fence)
}

async fn a_newer_writer_waits_for_one_that_is_paused_before_its_commit(place: Place) {
    let mut paused = Resource::open(&place).await;
    let mut next = Resource::open(&place).await;
    paused
        .database
        .run("CREATE TABLE report (id INT PRIMARY KEY, fence BIGINT)")
        .await;
    paused.begin().await;
    assert!(paused.pass("r", 0, 7).await);
    let newer = async {
        next.begin().await;
        assert!(next.pass("r", 0, 8).await);
        let older = next.database.number("SELECT COUNT(*) FROM report").await;
        next.end("COMMIT").await;
        older
    };
    let mut newer = std::pin::pin!(newer);
    timeout(Duration::from_secs(1), &mut newer)
        .await
        .unwrap_err();
    paused
        .database
        .run("INSERT INTO report VALUES (1, 7)")
        .await;
    paused.end("COMMIT").await;
    let older = timeout(SOON, newer).await.unwrap();
    assert_eq!(
        older, 1,
        "the newer writer passed before it saw the older write"
    );
    assert!(!paused.write("r", 0, 7).await);
    place.clear().await;
}

/// Many connections write at once, each with a fence, in any order. Each committed write has a fence at least as high as that
/// of the write before.
async fn nothing_older_is_committed_after_the_highest_fence(place: Place) {
    const WRITERS: u64 = 12;
    const FENCES: u64 = 120;
    let mut resource = Resource::open(&place).await;
    let journal = "CREATE TABLE journal (pass BIGINT PRIMARY KEY, fence BIGINT NOT NULL)";
    resource.database.run(journal).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|seed| {
            let (url, dialect) = (place.url().to_owned(), resource.dialect);
            thread::spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(async {
                    let mut database = Database::open(&url).await;
                    if dialect == SqlDialect::Sqlite {
                        // SQLite's lock is not fair, so a writer may wait for it for long.
                        database.run("PRAGMA busy_timeout=120000").await;
                    }
                    let mut resource = Resource { database, dialect };
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mut passed = 0;
                    for at in 0..FENCES / 4 {
                        let fence = 1 + at * 4 + random.u64(0..4);
                        passed += u64::from(note(&mut resource, fence, random.u64(0..3)).await);
                    }
                    passed + u64::from(note(&mut resource, FENCES + seed, 0).await)
                })
            })
        })
        .collect();
    let joined = spawn_blocking(|| {
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum()
    });
    let passed: u64 = joined.await.unwrap();
    let database = &mut resource.database;
    let noted = database.number("SELECT COUNT(*) FROM journal").await;
    assert_eq!(u64::try_from(noted).unwrap(), passed);
    let older = "SELECT COUNT(*) FROM journal a JOIN journal b ON b.pass = a.pass + 1 \
        WHERE b.fence < a.fence";
    assert_eq!(database.number(older).await, 0, "older after newer");
    let last = "SELECT fence FROM journal ORDER BY pass DESC LIMIT 1";
    let last = database.number(last).await;
    let highest = i64::try_from(FENCES + WRITERS - 1).unwrap();
    assert_eq!(last, highest, "the highest fence has the last word");
    println!("{passed} of {} writes passed", WRITERS * (FENCES / 4 + 1));
    place.clear().await;
}

/// Writes `fence` under the number of its pass, and takes `ms` between the pass and the commit.
async fn note(resource: &mut Resource, fence: u64, ms: u64) -> bool {
    resource.begin().await;
    if !resource.pass("r", 0, fence).await {
        resource.end("ROLLBACK").await;
        return false;
    }
    sleep(Duration::from_millis(ms)).await;
    let note = "INSERT INTO journal SELECT passes, fence FROM lockhouse_gate WHERE slot = 0";
    resource.database.run(note).await;
    resource.end("COMMIT").await;
    true
}
