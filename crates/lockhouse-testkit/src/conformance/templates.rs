//! Templates, and the line of their semaphores.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Code, Error, Lockhouse, Pattern, Refusal, Upkeep};
use tokio::time::{sleep, timeout};

use super::steps::{SOON, ask, eventually, grant, in_use, name, refusal};
use crate::place::Place;

/// The commit that grants creates the semaphore, whose status names the template.
pub async fn a_template_creates_a_semaphore_on_its_first_grant(place: &Place) {
    let lockhouse = place.client().await;
    let (template, created) = lockhouse.template("customer/*", 2).send().await.unwrap();
    assert!(created);
    assert_eq!(template.capacity.value(), 2);
    let granted = grant(&lockhouse, "a", &[("customer/acme", 1)]).await;
    assert_eq!(granted.unwrap().permits[0].fence, 1);
    let semaphore = lockhouse.status("customer/acme").await.unwrap().semaphore;
    let origin = semaphore.origin.expect("a template made it");
    assert_eq!(origin.template.as_str(), "customer/*");
    assert!(!origin.is_resized);
    assert_eq!((semaphore.capacity.value(), semaphore.in_use), (2, 1));
    grant(&lockhouse, "b", &[("customer/acme", 1)])
        .await
        .unwrap();
    let full = refusal(grant(&lockhouse, "c", &[("customer/acme", 1)]).await);
    assert_eq!(full, Refusal::Exhausted(vec![name("customer/acme")]));
    let unknown = refusal(grant(&lockhouse, "d", &[("repository/acme", 1)]).await);
    assert_eq!(unknown.code(), Code::UnknownSemaphore);
}

/// P5: a refused ask leaves no trace.
pub async fn a_refused_ask_creates_no_semaphore(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.template("customer/*", 2).await.unwrap();
    lockhouse.define("all", 1).await.unwrap();
    grant(&lockhouse, "a", &[("all", 1)]).await.unwrap();
    let both = [("customer/acme", 1), ("all", 1)];
    let full = refusal(grant(&lockhouse, "b", &both).await);
    assert_eq!(full, Refusal::Exhausted(vec![name("all")]));
    let large = refusal(grant(&lockhouse, "c", &[("customer/acme", 3)]).await);
    assert_eq!(large.code(), Code::ExceedsCapacity);
    let semaphores = lockhouse.semaphores(None, 10).await.unwrap();
    assert_eq!(semaphores.len(), 1, "{semaphores:?}");
    let unknown = refusal(lockhouse.status("customer/acme").await);
    assert_eq!(unknown.code(), Code::UnknownSemaphore);
}

/// Two processes that are first at the same time create one row, and get no error.
pub async fn a_semaphore_of_a_template_is_created_once_by_many_at_once(place: &Place) {
    let one = place.client().await;
    one.template("customer/*", 5).await.unwrap();
    let (two, three) = (place.client().await, place.client().await);
    let tries = [&one, &two, &three]
        .into_iter()
        .cycle()
        .take(12)
        .enumerate();
    let tries = tries.map(|(number, lockhouse)| async move {
        let id = format!("id-{number}");
        grant(lockhouse, &id, &[("customer/a", 1), ("customer/b", 1)]).await
    });
    let granted = join_all(tries).await.into_iter();
    let granted = granted.filter(|result| match result {
        Ok(_) => true,
        Err(Error::Refused(Refusal::Exhausted(_))) => false,
        other => panic!("{other:?}"),
    });
    assert_eq!(granted.count(), 5);
    for name in ["customer/a", "customer/b"] {
        assert_eq!(in_use(&one, name).await, 5);
    }
}

/// `*` matches all names. Of several templates that match, the one with the longest prefix applies.
pub async fn the_template_with_the_longest_prefix_creates_the_semaphore(place: &Place) {
    let lockhouse = place.client().await;
    for (pattern, capacity) in [("*", 1), ("customer/*", 2), ("customer/big-*", 3)] {
        lockhouse.template(pattern, capacity).await.unwrap();
    }
    for (name, capacity) in [("customer/big-one", 3), ("customer/acme", 2), ("else", 1)] {
        grant(&lockhouse, name, &[(name, 1)]).await.unwrap();
        let semaphore = lockhouse.status(name).await.unwrap().semaphore;
        assert_eq!(semaphore.capacity.value(), capacity);
    }
}

/// Templates are listed by pages, changed and deleted. Their semaphores stay.
pub async fn templates_are_listed_and_deleted(place: &Place) {
    let lockhouse = place.client().await;
    for pattern in ["b/*", "a/*", "c/*"] {
        lockhouse.template(pattern, 1).await.unwrap();
    }
    grant(&lockhouse, "x", &[("b/x", 1)]).await.unwrap();
    let idle = Duration::from_secs(60);
    let (changed, created) = lockhouse
        .template("b/*", 1)
        .idle(idle)
        .send()
        .await
        .unwrap();
    assert!(!created);
    assert_eq!(changed.idle.as_duration(), idle);
    let first = lockhouse.templates(None, 2).await.unwrap();
    let patterns = |templates: &[lockhouse::Template]| -> Vec<String> {
        let patterns = templates.iter().map(|template| &template.pattern);
        patterns.map(Pattern::to_string).collect()
    };
    assert_eq!(patterns(&first), ["a/*", "b/*"]);
    assert_eq!(first[1], changed);
    let rest = lockhouse
        .templates(Some(&first[1].pattern), 2)
        .await
        .unwrap();
    assert_eq!(patterns(&rest), ["c/*"]);
    assert!(lockhouse.delete_template("b/*").await.unwrap());
    assert!(!lockhouse.delete_template("b/*").await.unwrap());
    assert_eq!(in_use(&lockhouse, "b/x").await, 1);
    let unknown = refusal(grant(&lockhouse, "y", &[("b/y", 1)]).await);
    assert_eq!(unknown.code(), Code::UnknownSemaphore);
}

/// The semaphores are resized in batches, each with a row in its history. Semaphores that were resized by hand keep their
/// capacity.
pub async fn a_template_that_is_resized_resizes_its_semaphores(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.template("customer/*", 1).await.unwrap();
    let names: Vec<_> = (0..250).map(|n| format!("customer/{n}")).collect();
    let grants = names
        .iter()
        .map(async |name| grant(&lockhouse, name, &[(name, 1)]).await);
    for granted in join_all(grants).await {
        granted.unwrap();
    }
    lockhouse.define("customer/by-hand", 1).await.unwrap();
    lockhouse.semaphore("customer/7").resize(9).await.unwrap();
    lockhouse.template("customer/*", 3).await.unwrap();
    let capacity = async |name: &str| {
        let semaphore = lockhouse.status(name).await.unwrap().semaphore;
        semaphore.capacity.value()
    };
    eventually("the semaphores follow", async || {
        capacity("customer/0").await == 3 && capacity("customer/249").await == 3
    })
    .await;
    for (name, expected) in [
        ("customer/7", 9),
        ("customer/by-hand", 1),
        ("customer/99", 3),
    ] {
        assert_eq!(capacity(name).await, expected, "{name}");
    }
    let resized = lockhouse.status("customer/7").await.unwrap().semaphore;
    assert!(resized.origin.is_some_and(|origin| origin.is_resized));
    let history = lockhouse.history("customer/99", 10).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(
        history[0].note.as_ref().unwrap().as_str(),
        "template customer/*"
    );
    grant(&lockhouse, "more", &[("customer/99", 2)])
        .await
        .unwrap();
}

/// Semaphores that were resized by hand, one of them closed.
const RESIZED: [(&str, u32); 2] = [("customer/closed", 0), ("customer/large", 9)];

/// An idle semaphore that an operator has resized stays. P7: if the name of a deleted one is used again, its fences begin
/// above every fence that was handed out.
pub async fn an_idle_semaphore_of_a_template_is_deleted(place: &Place) {
    let lockhouse = place.client().await;
    let idle = Duration::from_millis(1);
    lockhouse
        .template("customer/*", 2)
        .idle(idle)
        .await
        .unwrap();
    // A second after a change of the template, the process looks at the template's semaphores once more.
    sleep(Duration::from_millis(1_500)).await;
    lockhouse.define("kept", 1).await.unwrap();
    for (name, capacity) in RESIZED {
        grant(&lockhouse, name, &[(name, 1)]).await.unwrap();
        lockhouse.release(name).await.unwrap();
        lockhouse.semaphore(name).resize(capacity).await.unwrap();
    }
    let mut last_fence = 0;
    for n in 0..3 {
        let granted = grant(&lockhouse, &format!("id-{n}"), &[("customer/a", 1)]).await;
        last_fence = granted.unwrap().permits[0].fence;
        lockhouse.release(format!("id-{n}")).await.unwrap();
    }
    grant(&lockhouse, "held", &[("customer/held", 1)])
        .await
        .unwrap();
    // The time of the last use is kept to the second.
    sleep(Duration::from_millis(1_200)).await;
    let Ok(swept) = lockhouse.sweep(&Upkeep::default()).await else {
        // A server does its own upkeep.
        return;
    };
    assert_eq!(swept.idle, 1);
    let unknown = refusal(lockhouse.status("customer/a").await);
    assert_eq!(unknown.code(), Code::UnknownSemaphore);
    assert_eq!(in_use(&lockhouse, "customer/held").await, 1);
    lockhouse.status("kept").await.unwrap();
    // The template would create them again with its own capacity.
    for (name, capacity) in RESIZED {
        let resized = lockhouse.status(name).await.unwrap().semaphore;
        assert_eq!(resized.capacity.value(), capacity, "{name}");
    }
    let back = grant(&lockhouse, "back", &[("customer/a", 1)])
        .await
        .unwrap();
    assert!(back.permits[0].fence > last_fence);
}

/// A lock defines its semaphore on first use, with the capacity that it needs.
pub async fn locks_work_on_names_of_a_template(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.template("lock/*", 1).await.unwrap();
    lockhouse.template("catalogue/*", i32::MAX).await.unwrap();
    let mutex = lockhouse.mutex("lock/a");
    let guard = mutex.lock().await.unwrap();
    assert_eq!(refusal(mutex.try_lock().await).code(), Code::Exhausted);
    let semaphore = lockhouse.status("lock/a").await.unwrap().semaphore;
    assert!(
        semaphore.origin.is_some(),
        "it is deleted when nobody uses it"
    );
    guard.release().await.unwrap();
    let catalogue = lockhouse.rwlock("catalogue/a");
    let (one, two) = (
        catalogue.read().await.unwrap(),
        catalogue.read().await.unwrap(),
    );
    assert!(catalogue.try_write().await.is_err());
    one.release().await.unwrap();
    two.release().await.unwrap();
    catalogue.write().await.unwrap().release().await.unwrap();
    let other = lockhouse.mutex("catalogue/b").lock().await.unwrap();
    assert_eq!(in_use(&lockhouse, "catalogue/b").await, 1);
    other.release().await.unwrap();
}

/// P11: a waiter for a semaphore of a template is granted when permits return, also if the semaphore has no row yet.
pub async fn a_waiter_for_a_semaphore_of_a_template_is_granted(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.template("customer/*", 1).await.unwrap();
    lockhouse.define("all", 1).await.unwrap();
    grant(&lockhouse, "holder", &[("all", 1)]).await.unwrap();
    let other = place.client().await;
    let waits = tokio::spawn(async move {
        let both = ask("waiter", &[("customer/new", 1), ("all", 1)]);
        other.acquire(both, SOON).await
    });
    eventually("it waits", async || {
        lockhouse.status("all").await.unwrap().waiting == 1
    })
    .await;
    lockhouse.release("holder").await.unwrap();
    waits.await.unwrap().unwrap();
    assert_eq!(in_use(&lockhouse, "customer/new").await, 1);
}

/// P11: a waiter that lacks room on a semaphore of a template keeps its place, and reserves nothing on its other
/// semaphores.
pub async fn a_saturated_key_holds_up_nobody_on_others(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.template("customer/*", 2).await.unwrap();
    lockhouse.define("all", 10).await.unwrap();
    for n in 0..2 {
        let both = [("customer/noisy", 1), ("all", 1)];
        grant(&lockhouse, &format!("noisy-{n}"), &both)
            .await
            .unwrap();
    }
    let mut noisy = Vec::new();
    for n in 2..12 {
        let other = lockhouse.clone();
        noisy.push(tokio::spawn(async move {
            let both = [("customer/noisy", 1), ("all", 1)];
            other.acquire(ask(&format!("noisy-{n}"), &both), SOON).await
        }));
        if n == 2 {
            wait_for(&lockhouse, "customer/noisy", 1).await;
        }
    }
    wait_for(&lockhouse, "customer/noisy", 10).await;
    // Every process has had time to register in the lines of both semaphores.
    sleep(Duration::from_millis(600)).await;
    for (n, client) in [place.client().await, lockhouse.clone()].iter().enumerate() {
        let both = [(&*format!("customer/quiet-{n}"), 1), ("all", 1)];
        let waits = ask(&format!("quiet-{n}"), &both);
        let granted = timeout(SOON, client.acquire(waits, Duration::from_secs(5))).await;
        granted.unwrap().unwrap();
    }
    // The first waiter is served when its key has room.
    lockhouse.release("noisy-0").await.unwrap();
    noisy.remove(0).await.unwrap().unwrap();
    for waits in noisy {
        waits.abort();
    }
}

async fn wait_for(lockhouse: &Lockhouse, semaphore: &str, waiting: u32) {
    eventually("they wait", async || {
        lockhouse.status(semaphore).await.unwrap().waiting == waiting
    })
    .await;
}
