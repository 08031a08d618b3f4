//! Creating, resizing and deleting semaphores.

use futures_util::future::join_all;
use lockhouse::{Code, Refusal};

use super::steps::{grant, in_use, name, refusal};
use crate::place::Place;

/// Provisioning scripts run more than once.
pub async fn defining_again_with_the_same_capacity_changes_nothing(place: &Place) {
    let lockhouse = place.client().await;
    let (first, created) = lockhouse.define("s", 4).send().await.unwrap();
    assert!(created);
    let (again, created) = lockhouse.define("s", 4).note("again").send().await.unwrap();
    assert!(!created);
    assert_eq!(again, first);
    assert!(lockhouse.history("s", 10).await.unwrap().is_empty());
}

/// The history has a row for every resize, and no other rows.
pub async fn a_resize_leaves_an_audit_row(place: &Place) {
    let lockhouse = place.client().await;
    let created = lockhouse.define("s", 4).await.unwrap().semaphore;
    let resize = lockhouse
        .define("s", 6)
        .changed_by("operator")
        .note("night: more room")
        .await;
    let resized = resize.unwrap().semaphore;
    assert_eq!(resized.capacity.value(), 6);
    assert_eq!(resized.created_at, created.created_at);
    assert!(resized.updated_at >= created.updated_at);

    let history = lockhouse.history("s", 10).await.unwrap();
    assert_eq!(history.len(), 1);
    let change = &history[0];
    assert_eq!(
        (change.old_capacity.value(), change.new_capacity.value()),
        (4, 6)
    );
    assert_eq!(change.changed_by.as_ref().unwrap().as_str(), "operator");
    assert_eq!(change.note.as_ref().unwrap().as_str(), "night: more room");
    assert_eq!(change.changed_at, resized.updated_at);
}

/// All stores keep times in microseconds, so that a time reads the same from each.
pub async fn times_are_whole_microseconds(place: &Place) {
    let lockhouse = place.client().await;
    let defined = lockhouse.define("s", 1).await.unwrap().semaphore;
    let held = grant(&lockhouse, "1", &[("s", 1)]).await.unwrap();
    for time in [defined.created_at, held.created_at] {
        assert_eq!(time.subsec_nanosecond() % 1_000, 0, "{time}");
    }
}

/// A resize does not create a semaphore.
pub async fn a_resize_of_an_unknown_semaphore_is_refused(place: &Place) {
    let lockhouse = place.client().await;
    let refused = refusal(lockhouse.define("s", 4).must_exist().await);
    assert_eq!(refused, Refusal::UnknownSemaphore(vec![name("s")]));
    assert_eq!(
        refusal(lockhouse.status("s").await).code(),
        Code::UnknownSemaphore
    );
    lockhouse.define("s", 4).await.unwrap();
    assert_eq!(
        lockhouse
            .define("s", 5)
            .must_exist()
            .await
            .unwrap()
            .semaphore
            .capacity
            .value(),
        5
    );
}

/// Deleting a semaphore with held permits would lose their count.
pub async fn deletion_is_refused_while_held(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 4).await.unwrap();
    grant(&lockhouse, "a", &[("s", 3)]).await.unwrap();
    let refused = refusal(lockhouse.delete("s").await);
    assert_eq!(
        refused,
        Refusal::SemaphoreInUse {
            name: name("s"),
            in_use: 3
        }
    );
    assert_eq!(in_use(&lockhouse, "s").await, 3);
    lockhouse.release("a").await.unwrap();
    lockhouse.delete("s").await.unwrap();
}

/// Every call finds it unknown.
pub async fn a_deleted_semaphore_is_unknown(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 4).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    lockhouse.release("a").await.unwrap();
    lockhouse.delete("s").await.unwrap();
    let unknown = Refusal::UnknownSemaphore(vec![name("s")]);
    assert_eq!(refusal(lockhouse.status("s").await), unknown);
    assert_eq!(refusal(lockhouse.delete("s").await), unknown);
    assert_eq!(refusal(lockhouse.history("s", 1).await), unknown);
    assert_eq!(
        refusal(lockhouse.holders(Some(&name("s")), None, 1).await),
        unknown
    );
    assert_eq!(
        refusal(lockhouse.define("s", 1).must_exist().await),
        unknown
    );
    assert_eq!(refusal(grant(&lockhouse, "b", &[("s", 1)]).await), unknown);
    assert!(lockhouse.semaphores(None, 10).await.unwrap().is_empty());
    assert!(
        !lockhouse.find("a").await.unwrap().is_live(),
        "the past is kept"
    );
}

/// A semaphore that is defined again has the new capacity and no held permits, and its fence goes on.
pub async fn a_semaphore_comes_back_empty(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 4).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    lockhouse.release("a").await.unwrap();
    lockhouse.delete("s").await.unwrap();
    let (back, created) = lockhouse.define("s", 2).send().await.unwrap();
    assert!(created);
    assert_eq!(
        (back.semaphore.capacity.value(), back.semaphore.in_use),
        (2, 0)
    );
    assert_eq!(back.semaphore.fence, 1);
    assert_eq!(lockhouse.semaphores(None, 10).await.unwrap().len(), 1);
}

/// No character in a name has a special meaning.
pub async fn names_of_every_script_and_sign(place: &Place) {
    let lockhouse = place.client().await;
    let names = [
        "a/b",
        "a//b",
        "/",
        "a?b=c#d",
        "%",
        "%2F",
        "a+b",
        "a b",
        "'; DROP TABLE x; --",
        "\"",
        "\\",
        "\\'",
        "x'00'",
        "💥",
        "日本語",
        "שלום",
        "{}",
        "$1",
        "?",
        ":a",
        "a=b",
        "a,b",
        "-",
        "...",
    ];
    for name in names {
        lockhouse.define(name, 1).await.unwrap();
        grant(&lockhouse, name, &[(name, 1)]).await.unwrap();
        assert_eq!(
            lockhouse.find(name).await.unwrap().permits[0]
                .semaphore
                .as_str(),
            name
        );
    }
    assert_eq!(
        lockhouse.semaphores(None, 100).await.unwrap().len(),
        names.len()
    );
    for name in names {
        assert!(lockhouse.release(name).await.unwrap().now, "{name}");
        lockhouse.delete(name).await.unwrap();
    }
}

/// On some databases two transactions deadlock that insert the same missing row. The store must prevent that.
pub async fn many_definitions_of_one_name_at_once_create_it_once(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    let defines = (0..20).map(|i| if i % 2 == 0 { &one } else { &two }.define("s", 5).send());
    let answers = join_all(defines).await;
    let created = answers
        .into_iter()
        .filter(|answer| answer.as_ref().unwrap().1)
        .count();
    assert_eq!(created, 1);
    assert!(one.history("s", 10).await.unwrap().is_empty());
}
