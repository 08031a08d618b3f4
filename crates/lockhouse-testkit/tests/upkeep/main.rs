//! Upkeep, and calls that find lapsed requests, on a store that is slow or in trouble.

#![allow(clippy::unwrap_used)]

mod deleted;
mod followed;
mod misfiled;
mod odd;
mod templated;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse::access::release_as;
use lockhouse::liveness::{OwnerCheck, Verdict};
use lockhouse::{Lockhouse, OwnerPattern, Upkeep};
use lockhouse_core::store::{Batch, Error, Kind, Store};
use lockhouse_core::{
    Ask, Capacity, Command, Count, Definition, ExternalId, Owner, SemaphoreName, Ttl,
};
use lockhouse_stores::Memory;
use odd::Odd;

/// A check that returns the verdicts of a list, and after these that all owners live.
#[derive(Debug)]
struct Says {
    verdicts: Mutex<Vec<Verdict>>,
    asked: AtomicUsize,
}

impl Says {
    fn new(verdicts: &[Verdict]) -> Arc<Self> {
        Arc::new(Self {
            verdicts: Mutex::new(verdicts.iter().rev().copied().collect()),
            asked: AtomicUsize::new(0),
        })
    }

    async fn asked(&self, times: usize) {
        let asked = async {
            while self.asked.load(SeqCst) < times {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), asked)
            .await
            .unwrap();
    }
}

#[async_trait]
impl OwnerCheck for Says {
    async fn verdict(&self, _owner: &Owner) -> Verdict {
        let verdict = self.verdicts.lock().unwrap().pop();
        self.asked.fetch_add(1, SeqCst);
        verdict.unwrap_or(Verdict::Alive)
    }
}

fn checking(check: &Arc<Says>) -> Upkeep {
    let check: Arc<dyn OwnerCheck> = Arc::clone(check) as _;
    Upkeep {
        check_every: Duration::from_millis(20),
        checks: vec![(OwnerPattern::new("job"), check)],
        ..Upkeep::default()
    }
}

fn of_job(id: &str, ttl: Option<Duration>) -> Ask {
    let permit = (SemaphoreName::parse("s").unwrap(), Count::ONE);
    let mut ask = Ask::new(ExternalId::parse(id).unwrap(), [permit]).unwrap();
    ask.owner = Some(Owner::parse("job").unwrap());
    ask.ttl = ttl.map(|ttl| Ttl::new(ttl).unwrap());
    ask
}

/// Otherwise the next process would have to wait until the permit lapses.
#[tokio::test(start_paused = true)]
async fn upkeep_stopped_while_it_takes_the_permit_has_none_afterwards() {
    // The definition takes the first second, the permit the next one.
    for moment in (200..2600).step_by(300) {
        let memory = Arc::new(Memory::new());
        let slow = Odd {
            transact: Duration::from_secs(1),
            ..Odd::on(&memory)
        };
        let maintaining = slow.lockhouse().maintain(Upkeep::default()).unwrap();
        tokio::time::sleep(Duration::from_millis(moment)).await;
        maintaining.stop().await;
        let quick = Odd::on(&memory).lockhouse();
        let name = SemaphoreName::stored("lockhouse:upkeep").unwrap();
        for _ in 0..30 {
            let held = quick.holders(Some(&name), None, 1).await.unwrap();
            assert_eq!(held.requests, [], "stopped after {moment} ms");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The verdicts are gone, alive in a round that the store breaks off, and gone. That is not gone twice in a row.
#[tokio::test]
async fn a_round_that_is_broken_off_counts_too() {
    use Verdict::{Alive, Gone};
    let check = Says::new(&[Gone, Alive, Gone]);
    let memory = Arc::new(Memory::new());
    let asked = Arc::clone(&check);
    let broken = AtomicBool::new(false);
    let odd = Odd {
        // The store fails at the second page of the second round.
        owners: Box::new(move |page| {
            let second = page.after.is_some() && asked.asked.load(SeqCst) == 2;
            match second && !broken.swap(true, SeqCst) {
                true => Err(Error::new(Kind::Rejected, "the store has trouble")),
                false => Ok(()),
            }
        }),
        ..Odd::on(&memory)
    };
    let lockhouse = odd.lockhouse();
    lockhouse.define("s", 1).await.unwrap();
    lockhouse
        .acquire(of_job("x", None), Duration::ZERO)
        .await
        .unwrap();
    let maintaining = lockhouse.maintain(checking(&check)).unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(2), check.asked(5)).await;
    let live = lockhouse.find("x").await.unwrap().is_live();
    maintaining.stop().await;
    assert!(live, "gone, alive, gone has freed it ({outcome:?})");
}

/// The verdicts are gone, then alive for another server's rounds, then gone.
#[tokio::test]
async fn verdicts_from_before_another_servers_turn_do_not_count() {
    use Verdict::{Alive, Gone};
    let memory = Arc::new(Memory::new());
    let (a, b) = (Odd::on(&memory).lockhouse(), Odd::on(&memory).lockhouse());
    a.define("s", 1).await.unwrap();
    a.acquire(of_job("x", None), Duration::ZERO).await.unwrap();
    // A's check returns gone once, and once more when it is A's turn again.
    let (of_a, of_b) = (Says::new(&[Alive, Gone]), Says::new(&[]));
    let mut slow = checking(&of_a);
    slow.check_every = Duration::from_secs(1);
    let a_maintains = a.maintain(slow).unwrap();
    of_a.asked(2).await;
    let b_maintains = b.maintain(checking(&of_b)).unwrap();
    // The turn goes to B: A's permit is ended, as when A can't renew it for a while.
    let upkeep = SemaphoreName::stored("lockhouse:upkeep").unwrap();
    let holder = b.holders(Some(&upkeep), None, 1).await.unwrap();
    let turn = holder.requests[0].external_id.clone();
    release_as(&b, turn, Some(Owner::lockhouse()))
        .await
        .unwrap();
    of_b.asked(10).await;
    of_a.verdicts.lock().unwrap().push(Gone);
    b_maintains.stop().await;
    of_a.asked(of_a.asked.load(SeqCst) + 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let live = a.find("x").await.unwrap().is_live();
    a_maintains.stop().await;
    assert!(live, "gone, ten times alive, gone has freed it");
}

/// A check freed all that a live session kept. The owner must learn it from its heartbeat, as it renews nothing else.
#[tokio::test]
async fn a_session_whose_owner_was_said_to_be_gone_is_lost() {
    let check = Says::new(&[Verdict::Gone, Verdict::Gone]);
    let lockhouse = Odd::on(&Arc::new(Memory::new())).lockhouse();
    lockhouse.define("s", 1).await.unwrap();
    let session = lockhouse
        .session("job", Duration::from_millis(300))
        .await
        .unwrap();
    let permit = session
        .request_with_id("x")
        .permits("s", 1)
        .acquire()
        .await
        .unwrap();
    let maintaining = lockhouse.maintain(checking(&check)).unwrap();
    check.asked(2).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!lockhouse.find("x").await.unwrap().is_live(), "it is freed");
    let other = lockhouse.semaphore("s").try_acquire().await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(2), session.lost()).await;
    maintaining.stop().await;
    drop((permit, other));
    assert!(
        lost.is_ok(),
        "two callers hold the only permit, and the first never learns it"
    );
}

/// The lapsed session of an owner that holds nothing is deleted before it can end a later hold.
#[tokio::test]
async fn a_hold_that_is_newer_than_the_silence_is_not_ended_by_it() {
    let lockhouse = Odd::on(&Arc::new(Memory::new())).lockhouse();
    lockhouse.define("s", 1).await.unwrap();
    lockhouse
        .heartbeat("job", Duration::from_millis(1))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let soon = Upkeep {
        sessions_after: Duration::ZERO,
        ..Upkeep::default()
    };
    lockhouse.sweep(&soon).await.unwrap();
    let hour = Duration::from_secs(3600);
    lockhouse
        .acquire(of_job("x", Some(hour)), Duration::ZERO)
        .await
        .unwrap();
    lockhouse.renew("x", None).await.unwrap();
    lockhouse.sweep(&Upkeep::default()).await.unwrap();
    let x = lockhouse.find("x").await.unwrap();
    assert!(x.is_live(), "{:?}", x.end_reason());
}

/// An index of a large table takes a while. The store allows 10 min.
#[tokio::test(start_paused = true)]
async fn a_migration_may_take_longer_than_a_call() {
    let memory = Arc::new(Memory::new());
    let odd = Odd {
        migrate: Duration::from_secs(60),
        ..Odd::on(&memory)
    };
    odd.lockhouse().migrate().await.unwrap();
}

/// "Every call is answered within 10 s."
#[tokio::test(start_paused = true)]
async fn a_call_that_finds_what_has_lapsed_is_answered_within_10_s() {
    let memory = Arc::new(Memory::new());
    let quick = Odd::on(&memory).lockhouse();
    quick.define("s", 1).await.unwrap();
    let brief = of_job("dead", Some(Duration::from_millis(1)));
    let _ = quick.acquire(brief, Duration::ZERO).await;
    std::thread::sleep(Duration::from_millis(20));
    let slow = Odd {
        transact: Duration::from_secs(4),
        ..Odd::on(&memory)
    };
    let began = tokio::time::Instant::now();
    let _ = slow
        .lockhouse()
        .acquire(of_job("next", None), Duration::ZERO)
        .await;
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(10), "{took:?}");
}

/// Lockhouse's own rows never make a page shorter, or the last one.
#[tokio::test]
async fn a_listing_with_many_hidden_rows_pages_rightly() {
    let store = Arc::new(Memory::new());
    let hidden = (0..7).map(|i| format!("lockhouse:{i}"));
    let shown = ["a", "b", "lockhouse", "m", "z"].map(str::to_owned);
    let ask = |name: SemaphoreName| {
        Ask::new(
            ExternalId::parse(name.as_str()).unwrap(),
            [(name, Count::ONE)],
        )
        .unwrap()
    };
    for name in hidden.chain(shown.clone()) {
        let name = SemaphoreName::stored(name).unwrap();
        let define = Command::Define(Definition::new(name.clone(), Capacity::new(1).unwrap()));
        let batch = Batch::new(vec![define, Command::acquire(ask(name))]);
        let outcomes = store.transact(&batch).await.unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }
    let lockhouse = Lockhouse::with_store(store);
    for limit in 1..=6 {
        let (mut semaphores, mut holders) = (Vec::new(), Vec::new());
        loop {
            let after = semaphores.last();
            let page = lockhouse.semaphores(after, limit).await.unwrap();
            let is_last = page.len() < limit as usize;
            semaphores.extend(page.into_iter().map(|status| status.semaphore.name));
            if is_last {
                break;
            }
        }
        let mut after = None;
        loop {
            let page = lockhouse.holders(None, after, limit).await.unwrap();
            let is_full = page.requests.len() == limit as usize;
            assert!(
                is_full || page.next.is_none(),
                "hidden rows make no page shorter"
            );
            let ids = page.requests.into_iter();
            holders.extend(ids.map(|request| request.external_id));
            match page.next {
                None => break,
                next => after = next,
            }
        }
        let semaphores: Vec<_> = semaphores.iter().map(SemaphoreName::to_string).collect();
        let holders: Vec<_> = holders.iter().map(ExternalId::to_string).collect();
        assert_eq!(semaphores, shown, "{limit}");
        assert_eq!(holders, shown, "{limit}");
    }
    assert!(lockhouse.find("lockhouse:0").await.is_err(), "it is hidden");
}
