//! P12: a template has as many semaphores as `LOCKHOUSE_TEST_TEMPLATED` says, 20,000 unless it is set. An acquire costs as much
//! as among a thousand. The upkeep resizes, deletes and purges all of them, and each of its transactions is short.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName, Upkeep};
use lockhouse_core::store::{Batch, Call, Error, FullStore, Layer, Migration, Page, Store};
use lockhouse_core::{Capacity, Idle, Outcome, Pattern, TemplateDefinition};
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::{self, Place};
use tokio::time::sleep;

/// The number of semaphores in the store that has few.
const FEW: u32 = 1_000;

/// How many acquires are measured. Every other one creates its semaphore.
const PAIRS: u32 = 300;

/// How many times as long the median acquire may take among many. The machine has other load as well.
const FLAT: f64 = 2.0;

/// The longest that a transaction may take.
const LONGEST: Duration = Duration::from_millis(200);

/// How many calls in a hundred must be short: half of them in an ordinary run, beside other load, and nearly all in a run whose
/// size was set.
const HALF: usize = 50;
const NEARLY_ALL: usize = 99;

/// How often the upkeep looks in vain at the end. The shortest look counts.
const LOOKS: u32 = 3;

/// Longer than any run.
const LONG: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const SEMAPHORES: &str = "SELECT COUNT(*) FROM lockhouse_semaphore WHERE name LIKE 'customer/%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_semaphores_of_a_template_on_sqlite() {
    many(place::sqlite().await, place::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_semaphores_of_a_template_on_mysql() {
    many(place::mysql().await, place::mysql().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_semaphores_of_a_template_on_mariadb() {
    many(place::mariadb().await, place::mariadb().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_semaphores_of_a_template_on_postgres() {
    many(place::postgres().await, place::postgres().await).await;
}

/// A store that measures how long each call takes.
#[derive(Debug)]
struct Timed {
    store: Arc<dyn FullStore>,
    took: Mutex<BTreeMap<&'static str, Vec<Duration>>>,
    /// How many calls in a hundred must be short.
    short: usize,
}

impl Timed {
    fn note(&self, call: &'static str, since: Instant) {
        let mut took = self.took.lock().unwrap();
        took.entry(call).or_default().push(since.elapsed());
    }

    /// The calls noted since the last check must be short, and at least `at_least` of them must be `call`.
    fn check(&self, what: &str, call: &str, at_least: usize) {
        let took = std::mem::take(&mut *self.took.lock().unwrap());
        let number = took.get(call).map_or(0, Vec::len);
        assert!(number >= at_least, "{what}: {number} calls of {call}");
        for (call, mut took) in took {
            took.sort();
            let number = took.len();
            let at = |percent: usize| took[(number * percent).div_ceil(100) - 1];
            let [half, nearly_all, all] = [HALF, NEARLY_ALL, 100].map(at);
            println!(
                "{what}: {number} calls of {call}, p50 {half:.1?}, p99 {nearly_all:.1?}, longest {all:.1?}"
            );
            let most = at(self.short);
            assert!(most < LONGEST, "{what}: {call} {most:?}");
        }
    }
}

impl Layer for Timed {
    fn inner(&self) -> &dyn FullStore {
        &*self.store
    }

    async fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let since = Instant::now();
        let answer = answer.await;
        self.note(call.name(), since);
        answer
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let since = Instant::now();
        let outcomes = self.store.transact(batch).await;
        self.note("transact", since);
        outcomes
    }
}

async fn many(few: Option<Place>, many: Option<Place>) {
    let (Some(few), Some(many)) = (few, many) else {
        return;
    };
    let asked_for = std::env::var("LOCKHOUSE_TEST_TEMPLATED");
    let (size, short) = match asked_for {
        Ok(size) => (size.parse().unwrap(), NEARLY_ALL),
        Err(_) => (20_000, HALF),
    };
    fill(&few, FEW).await;
    fill(&many, size).await;
    let (times, some) = acquires(&few, &many, size).await;
    println!("{size} semaphores: the median acquire takes {times:.2} times that of {some:.2?}");
    assert!(times < FLAT, "{times}");
    let store = lockhouse_stores::open(many.url()).unwrap();
    let timed = Arc::new(Timed {
        store,
        took: Mutex::default(),
        short,
    });
    upkeep(&timed, &many, size).await;
    few.clear().await;
    many.clear().await;
}

/// Writes semaphores that were used just now.
async fn fill(place: &Place, size: u32) {
    let lockhouse = place.client().await;
    lockhouse.template("customer/*", 2).await.unwrap();
    let mut database = Database::open(place.url()).await;
    let now = database.seconds_ago("0");
    let digits = "SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
                  UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9";
    let (mut number, mut from) = (String::from("0"), Vec::new());
    // One turn for each digit of the largest number.
    for place in 0..=(size - 1).max(1).ilog10() {
        number.push_str(&format!("+p{place}.d*{}", 10_u64.pow(place)));
        from.push(format!("({digits}) p{place}"));
    }
    let text = match &database {
        Database::MySql(_) => format!("CONCAT('customer/',{number})"),
        _ => format!("'customer/' || ({number})"),
    };
    let from = from.join(" CROSS JOIN ");
    let columns = "name,capacity,in_use,fence,created_at,updated_at,template,is_resized,used_at";
    let insert = format!(
        "INSERT INTO lockhouse_semaphore ({columns}) \
         SELECT {text},2,0,1,{now},{now},'customer/*',0,{now} FROM {from} WHERE {number}<{size}"
    );
    database.run(&insert).await;
    assert_eq!(database.number(SEMAPHORES).await, i64::from(size));
}

/// How many times as long the median acquire takes among many as among few, and how long it takes among few. The two stores
/// take turns, and every other acquire creates its semaphore.
async fn acquires(few: &Place, many: &Place, size: u32) -> (f64, Duration) {
    let (few, many) = (few.client().await, many.client().await);
    let (mut among_few, mut among_many) = (Vec::new(), Vec::new());
    for n in 0..PAIRS {
        let name = |size: u32| match n % 2 {
            0 => format!("customer/{}", fastrand::u32(..size)),
            _ => format!("customer/new-{n}"),
        };
        among_few.push(acquire(&few, &name(FEW), n).await);
        among_many.push(acquire(&many, &name(size), n).await);
    }
    let [few, many] = [among_few, among_many].map(|mut took| {
        took.sort();
        took[took.len() / 2]
    });
    (many.as_secs_f64() / few.as_secs_f64(), few)
}

async fn acquire(lockhouse: &Lockhouse, name: &str, n: u32) -> Duration {
    let id = ExternalId::parse(format!("id-{n}")).unwrap();
    let name = SemaphoreName::parse(name).unwrap();
    let ask = Ask::new(id.clone(), [(name, Count::ONE)]).unwrap();
    let since = Instant::now();
    lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
    let took = since.elapsed();
    lockhouse.release(&id).await.unwrap();
    took
}

/// All semaphores are resized with their template, deleted as unused, and purged. Then a name comes back.
async fn upkeep(timed: &Arc<Timed>, place: &Place, size: u32) {
    timed.migrate().await.unwrap();
    let lockhouse = Lockhouse::with_store(timed.clone());
    let mut database = Database::open(place.url()).await;
    let all = i64::from(size + PAIRS / 2);
    let batches = all as usize / 800;
    assert_eq!(database.number(SEMAPHORES).await, all);

    set_template(timed, 3, LONG).await;
    timed.took.lock().unwrap().clear();
    let swept = lockhouse.sweep(&Upkeep::default()).await.unwrap();
    assert_eq!(swept.idle, 0);
    let followed = format!("{SEMAPHORES} AND capacity=3 AND template IS NOT NULL");
    assert_eq!(database.number(&followed).await, all);
    let changes = "SELECT COUNT(*) FROM lockhouse_capacity_change WHERE new_capacity=3";
    assert_eq!(database.number(changes).await, all);
    timed.check("resized", "transact", batches);
    look_in_vain(timed, "resized").await;

    // The time of the last use is kept to the second.
    sleep(Duration::from_millis(1_200)).await;
    let customer = "customer/0".parse().unwrap();
    let last = Store::semaphore(&**timed, &customer).await.unwrap();
    let last = last.unwrap().fence;
    set_template(timed, 3, Duration::from_millis(1)).await;
    timed.took.lock().unwrap().clear();
    let swept = lockhouse.sweep(&Upkeep::default()).await.unwrap();
    assert_eq!(i64::from(u32::try_from(swept.idle).unwrap()), all);
    assert_eq!(database.number(SEMAPHORES).await, all, "their fences stay");
    timed.check("deleted", "transact", batches);
    look_in_vain(timed, "deleted").await;

    purge(timed, &lockhouse, &mut database).await;
    assert_eq!(database.number(SEMAPHORES).await, 0);
    timed.check("purged", "purge", batches);

    let ask = [(customer, Count::ONE)];
    let ask = Ask::new(ExternalId::parse("again").unwrap(), ask).unwrap();
    let (request, _) = lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
    let fence = request.permits[0].fence;
    assert!(fence > last, "P7: {fence}, and {last} before");
}

/// Sets the template past the engine, which would make the semaphores follow at once.
async fn set_template(timed: &Timed, capacity: u32, idle: Duration) {
    let definition = TemplateDefinition {
        pattern: "customer/*".parse().unwrap(),
        capacity: Capacity::new(capacity).unwrap(),
        idle: Idle::from_ms(idle.as_millis() as u64).unwrap(),
    };
    timed.store.define_template(&definition).await.unwrap();
}

/// The indexes may still hold entries of changed or deleted rows, and a look that finds nothing passes all of them.
async fn look_in_vain(timed: &Timed, what: &str) {
    let all = Page::<Pattern> {
        after: None,
        limit: 1,
    };
    let templates = timed.store.templates(&all).await.unwrap();
    let mut shortest = Duration::MAX;
    for _ in 0..LOOKS {
        let since = Instant::now();
        let found = timed.store.to_follow(&templates[0], 200).await.unwrap();
        shortest = shortest.min(since.elapsed());
        assert!(found.is_empty(), "{what}: {found:?}");
    }
    println!("{what}: a look in vain takes {shortest:.1?}");
    assert!(shortest < LONGEST, "{what}: {shortest:?}");
}

/// Purges all old rows, as if days had passed. The first purge notes the fences, and rows are deleted at least 10 s later.
async fn purge(timed: &Timed, lockhouse: &Lockhouse, database: &mut Database) {
    let all = Upkeep {
        purge_after: Duration::ZERO,
        history_after: Duration::ZERO,
        purge_pause: Duration::ZERO,
        ..Upkeep::default()
    };
    let (days, seconds) = match database {
        Database::Sqlite(_) => ("-172800000000", "-11000000"),
        _ => ("-INTERVAL '2' DAY", "-INTERVAL '11' SECOND"),
    };
    let age = format!(
        "UPDATE lockhouse_semaphore SET deleted_at=deleted_at{days} WHERE name LIKE 'customer/%'"
    );
    database.run(&age).await;
    timed.took.lock().unwrap().clear();
    lockhouse.sweep(&all).await.unwrap();
    let settle = format!(
        "UPDATE lockhouse_semaphore SET created_at=created_at{seconds} WHERE name='lockhouse:epoch'"
    );
    database.run(&settle).await;
    lockhouse.sweep(&all).await.unwrap();
    let changes = "SELECT COUNT(*) FROM lockhouse_capacity_change";
    assert_eq!(database.number(changes).await, 0);
}
