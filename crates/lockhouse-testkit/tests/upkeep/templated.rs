//! P12: as many semaphores of a template as `LOCKHOUSE_TEST_TEMPLATED` says, 20,000 unless it is set. An acquire costs
//! what it costs among a thousand, and the transactions of the upkeep stay short, whatever it does to all of them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName, Upkeep};
use lockhouse_core::store::{
    self, Batch, Call, Error, FullStore, Layer, Migration, Purge, Templates,
};
use lockhouse_core::{Capacity, Idle, Outcome, TemplateDefinition};
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::{self, Place};
use tokio::time::sleep;

/// The semaphores where there are few.
const FEW: u32 = 1_000;

/// How many acquires are measured.
const PAIRS: u32 = 300;

/// How much longer the median acquire may take among many. The machine has other things to do as well.
const FLAT: f64 = 2.0;

/// The longest that a transaction may take.
const LONGEST: Duration = Duration::from_millis(200);

/// How many transactions in a hundred may take longer, as the machine has other things to do.
const LONGER: usize = 1;

/// Longer than any run.
const LONG: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_semaphores_of_a_template_on_sqlite() {
    many(place::sqlite().await, place::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_semaphores_of_a_template_on_mysql() {
    many(place::mysql().await, place::mysql().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_semaphores_of_a_template_on_postgres() {
    many(place::postgres().await, place::postgres().await).await;
}

/// A store, with how long each call took.
#[derive(Debug)]
struct Timed {
    store: Arc<dyn FullStore>,
    took: Mutex<Vec<Duration>>,
}

impl Timed {
    fn note(&self, since: Instant) {
        self.took.lock().unwrap().push(since.elapsed());
    }

    /// The calls since the last check must be short.
    fn check(&self, what: &str) {
        let mut took = std::mem::take(&mut *self.took.lock().unwrap());
        took.sort();
        let number = took.len();
        let [half, most, all] =
            [50, 100 - LONGER, 100].map(|percent| took[(number * percent).div_ceil(100) - 1]);
        println!(
            "{what}: {number} calls, p50 {half:.1?}, p{} {most:.1?}, longest {all:.1?}",
            100 - LONGER
        );
        assert!(most < LONGEST, "{what}: {most:?}");
    }
}

impl Layer for Timed {
    fn inner(&self) -> &dyn FullStore {
        &*self.store
    }

    async fn around<T: Send>(
        &self,
        _: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let since = Instant::now();
        let answer = answer.await;
        self.note(since);
        answer
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let since = Instant::now();
        let outcomes = self.store.transact(batch).await;
        self.note(since);
        outcomes
    }
}

async fn many(few: Option<Place>, many: Option<Place>) {
    let (Some(few), Some(many)) = (few, many) else {
        return;
    };
    let size = std::env::var("LOCKHOUSE_TEST_TEMPLATED");
    let size = size.map_or(20_000, |size| size.parse().unwrap());
    fill(&few, FEW).await;
    fill(&many, size).await;
    let (times, some) = acquires(&few, &many, size).await;
    println!("{size} semaphores: the median acquire takes {times:.2} times that of {some:.2?}");
    assert!(times < FLAT, "{times}");
    let store = lockhouse_stores::open(many.url()).unwrap();
    let timed = Arc::new(Timed {
        store,
        took: Mutex::default(),
    });
    upkeep(&timed, &many, size).await;
    few.clear().await;
    many.clear().await;
}

/// Semaphores that were used just now.
async fn fill(place: &Place, size: u32) {
    let lockhouse = place.client().await;
    lockhouse.template("customer/*", 2).await.unwrap();
    let mut database = Database::open(place.url()).await;
    let now = database.seconds_ago("0");
    let digits = "SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
                  UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9";
    let (mut number, mut from) = (String::from("0"), Vec::new());
    for place in 0..size.max(2).ilog10() + 1 {
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
    let there =
        database.number("SELECT COUNT(*) FROM lockhouse_semaphore WHERE template IS NOT NULL");
    assert_eq!(there.await, i64::from(size));
}

/// How many times as long the median acquire takes among many as among few, and how long it takes there. They take
/// turns; every other one creates its semaphore.
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

/// All are resized with their template, deleted as nobody uses them, and purged; then a name comes back.
async fn upkeep(timed: &Arc<Timed>, place: &Place, size: u32) {
    timed.migrate().await.unwrap();
    timed.took.lock().unwrap().clear();
    let lockhouse = Lockhouse::with_store(timed.clone());
    let mut database = Database::open(place.url()).await;
    let template = async |capacity: u32, idle: Duration| {
        let definition = TemplateDefinition {
            pattern: "customer/*".parse().unwrap(),
            capacity: Capacity::new(capacity).unwrap(),
            idle: Idle::from_ms(idle.as_millis() as u64).unwrap(),
        };
        Templates::define_template(&**timed, &definition)
            .await
            .unwrap();
    };
    template(3, LONG).await;
    let swept = lockhouse.sweep(&Upkeep::default()).await.unwrap();
    assert_eq!(swept.idle, 0);
    let left =
        "SELECT COUNT(*) FROM lockhouse_semaphore WHERE template IS NOT NULL AND capacity<>3";
    assert_eq!(database.number(left).await, 0);
    timed.check("resized");

    template(3, Duration::from_millis(1)).await;
    // When they were used is noted to the second.
    sleep(Duration::from_millis(1_200)).await;
    let swept = lockhouse.sweep(&Upkeep::default()).await.unwrap();
    assert_eq!(swept.idle, u64::from(size + PAIRS / 2));
    timed.check("deleted");

    let age = Duration::ZERO;
    for what in [Purge::Requests { age }, Purge::Semaphores { age }] {
        let batch = Upkeep::default().purge_batch;
        while store::Upkeep::purge(&**timed, what, batch).await.unwrap() > 0 {}
    }
    let rows = "SELECT COUNT(*) FROM lockhouse_semaphore WHERE template IS NOT NULL";
    assert_eq!(database.number(rows).await, 0);
    timed.check("purged");

    let ask = [("customer/0".parse().unwrap(), Count::ONE)];
    let ask = Ask::new(ExternalId::parse("again").unwrap(), ask).unwrap();
    let (request, _) = lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
    assert!(request.permits[0].fence > 1, "P7: {request:?}");
}
