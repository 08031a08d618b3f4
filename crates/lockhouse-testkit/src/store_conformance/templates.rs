//! [`Templates`](lockhouse_core::store::Templates): their definitions, and the semaphores that do not follow them yet.

use std::time::Duration;

use lockhouse_core::{
    Capacity, Command, Idle, Pattern, Refusal, SemaphoreName, Template, TemplateDefinition,
};
use tokio::time::{Instant, sleep};

use super::words::*;
use crate::place::Place;

fn template(pattern: &str, capacity: u32, idle: Duration) -> TemplateDefinition {
    TemplateDefinition {
        pattern: pattern.parse().unwrap(),
        capacity: Capacity::new(capacity).unwrap(),
        idle: Idle::from_ms(idle.as_millis() as i128).unwrap(),
    }
}

/// Defines a template whose semaphores are not idle for an hour.
async fn defined(store: &Store, pattern: &str, capacity: u32) -> (Template, bool) {
    let definition = template(pattern, capacity, HOUR);
    store.define_template(&definition).await.unwrap()
}

async fn follow(store: &Store, semaphore: &str) {
    let name = name(semaphore);
    run(store, [Command::Follow { name }]).await;
}

/// The semaphores that seem to need an update from `template`, each once.
async fn to_follow(store: &Store, template: &Template) -> Vec<SemaphoreName> {
    let mut names = store.to_follow(template, ALL).await.unwrap();
    names.sort();
    names.dedup();
    names
}

/// A repeated definition changes nothing. Another one changes the template, which keeps its time of creation.
pub async fn a_template_is_created_once_and_then_changed(place: &Place) {
    let store = place.store().await;
    let (made, is_new) = defined(&store, "t/*", 2).await;
    assert!(is_new);
    assert_eq!(made.updated_at, made.created_at);
    assert_eq!(defined(&store, "t/*", 2).await, (made.clone(), false));
    let idle = Duration::from_millis(1);
    let definition = template("t/*", 3, idle);
    let (changed, is_new) = store.define_template(&definition).await.unwrap();
    assert!(!is_new && changed.updated_at >= made.updated_at);
    let expected = Template {
        capacity: definition.capacity,
        idle: definition.idle,
        updated_at: changed.updated_at,
        ..made
    };
    assert_eq!(changed, expected);
    assert_eq!(store.templates(&first(ALL)).await.unwrap(), [changed]);
}

/// Two transactions insert the same missing row.
pub async fn a_template_that_many_define_at_once_is_created_once(place: &Place) {
    let stores = [place.store().await, place.store().await];
    for pattern in ('a'..='j').map(|prefix| format!("{prefix}*")) {
        let created = true_of_eight(&stores, |store| {
            let definition = template(&pattern, 2, HOUR);
            async move {
                loop {
                    match store.define_template(&definition).await {
                        Ok((_, is_new)) => return is_new,
                        Err(error) => assert!(error.is_transient(), "{error}"),
                    }
                }
            }
        });
        assert_eq!(created.await, 1, "{pattern}");
    }
    let templates = stores[0].templates(&first(ALL)).await.unwrap();
    assert_eq!(templates.len(), 10);
}

pub async fn templates_are_listed_in_byte_order_by_pages(place: &Place) {
    let store = place.store().await;
    let mut patterns = ["a/*", "B*", "a*", "é*", "*", "a b*"];
    for pattern in patterns {
        defined(&store, pattern, 1).await;
    }
    patterns.sort_unstable();
    let (mut listed, mut page) = (Vec::<Pattern>::new(), first(4));
    loop {
        let more = store.templates(&page).await.unwrap();
        assert!(more.len() <= 4);
        let Some(last) = more.last() else { break };
        page.after = Some(last.pattern.clone());
        listed.extend(more.into_iter().map(|template| template.pattern));
    }
    assert!(listed.iter().map(Pattern::as_str).eq(patterns));
    assert!(store.templates(&first(0)).await.unwrap().is_empty());
}

pub async fn a_deleted_template_leaves_its_semaphores_and_creates_no_more(place: &Place) {
    let store = place.store().await;
    let (made, _) = defined(&store, "t/*", 2).await;
    defined(&store, "T/*", 2).await;
    run(&store, [acquire("x", &["t/a"])]).await;
    assert!(store.delete_template(&made.pattern).await.unwrap());
    assert!(!store.delete_template(&made.pattern).await.unwrap());
    let left = store.templates(&first(ALL)).await.unwrap();
    assert_eq!(left.len(), 1, "another template stays");
    assert_eq!(semaphore(&store, "t/a").await.in_use, 1);
    let refused = outcome(&store, acquire("y", &["t/b"])).await;
    assert_eq!(refused, Err(Refusal::UnknownSemaphore(vec![name("t/b")])));
}

/// Semaphores that were resized or defined by hand, and those of other templates, are not found.
pub async fn semaphores_that_differ_from_their_template_are_found_to_follow_it(place: &Place) {
    let store = place.store().await;
    let (made, _) = defined(&store, "t/*", 2).await;
    defined(&store, "t/other-*", 5).await;
    let of_templates = ["t/a", "t/b", "t/resized", "t/other-a"];
    run(&store, of_templates.map(|name| acquire(name, &[name]))).await;
    run(&store, [define("t/resized", 9), define("t/own", 9)]).await;
    assert!(to_follow(&store, &made).await.is_empty());
    for capacity in [1, 3] {
        let (changed, _) = defined(&store, "t/*", capacity).await;
        let differing = to_follow(&store, &changed).await;
        assert_eq!(differing, ["t/a", "t/b"].map(name), "{capacity}");
        assert_eq!(store.to_follow(&changed, 1).await.unwrap().len(), 1);
    }
    follow(&store, "t/a").await;
    assert_eq!(semaphore(&store, "t/a").await.capacity.value(), 3);
    let (template, _) = defined(&store, "t/*", 3).await;
    assert_eq!(to_follow(&store, &template).await, [name("t/b")]);
}

/// A use is recorded to the second, so a semaphore counts as used for a second longer.
pub async fn semaphores_that_seem_idle_are_found_to_follow_their_template(place: &Place) {
    let store = place.store().await;
    let definition = template("t/*", 2, Duration::from_millis(1));
    let (made, _) = store.define_template(&definition).await.unwrap();
    run(
        &store,
        [acquire("x", &["t/idle"]), acquire("y", &["t/held"])],
    )
    .await;
    run(&store, [release("x")]).await;
    let begun = Instant::now();
    let idle = loop {
        let idle = to_follow(&store, &made).await;
        if !idle.is_empty() {
            break idle;
        }
        assert!(begun.elapsed() < SOON, "none seems idle");
        sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(idle, [name("t/idle")]);
    let patient = Template {
        idle: Idle::default(),
        ..made.clone()
    };
    assert!(to_follow(&store, &patient).await.is_empty());
    follow(&store, "t/idle").await;
    let deleted = store.semaphore(&name("t/idle")).await.unwrap();
    assert_eq!(deleted, None);
    assert!(to_follow(&store, &made).await.is_empty());
}
