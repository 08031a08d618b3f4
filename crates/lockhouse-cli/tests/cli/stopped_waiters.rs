//! P11 where a process whose callers wait is stopped for less than 5 s, or killed: the others go on without it. One that was
//! stopped has its callers' places again when it goes on.

use std::time::{Duration, Instant};

use crate::house::{House, Running};
use lockhouse::{Lockhouse, Permit};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;
use tokio::time::sleep;

on_each_store!(
    a_stopped_server_neither_oversteps_nor_loses_its_callers_places,
    a_stopped_run_neither_oversteps_nor_loses_its_place,
    a_killed_server_delays_those_behind_its_callers_once,
    a_wait_in_several_calls_keeps_its_place_against_another_server,
);

/// Until a waiter has surely been entered in the line, and the next one stands behind it.
const APART: Duration = Duration::from_millis(700);

/// From the end of the hold before to the grant, where a silent process is passed over.
const PASSED_OVER_WITHIN: Duration = Duration::from_millis(1_500);

/// How long free permits are left to a process that does not come for them.
const LEFT_FOR: Duration = Duration::from_millis(700);

fn waits(lockhouse: &Lockhouse, id: &'static str) -> JoinHandle<(Instant, Permit)> {
    let lockhouse = lockhouse.clone();
    tokio::spawn(async move {
        let ask = lockhouse.request_with_id(id).permits("deploy", 1);
        let ask = ask.ttl(Duration::from_secs(30));
        let permit = ask.wait(Duration::from_secs(30)).acquire().await.unwrap();
        (Instant::now(), permit)
    })
}

/// Two servers on one store. Somebody holds `deploy`; a caller of the first server waits for it, and behind that one of the
/// second.
struct Scene {
    _house: House,
    servers: [Running; 2],
    clients: [Lockhouse; 2],
    held: Permit,
    first: JoinHandle<(Instant, Permit)>,
    second: JoinHandle<(Instant, Permit)>,
}

impl Scene {
    async fn of(place: &Place) -> Self {
        let house = House::at(place.url());
        house.text(&["create", "deploy", "1"]);
        let holder = place.client().await;
        let held = holder.request_with_id("held").permits("deploy", 1);
        let held = held.acquire().await.unwrap();
        let (one, its_url) = house.serve("127.0.0.1:0");
        let (two, other_url) = house.serve("127.0.0.1:0");
        let at_one = Lockhouse::connect(&its_url).await.unwrap();
        let at_two = Lockhouse::connect(&other_url).await.unwrap();
        let first = waits(&at_one, "first");
        sleep(APART).await;
        let second = waits(&at_two, "second");
        Self {
            _house: house,
            servers: [one, two],
            clients: [at_one, at_two],
            held,
            first,
            second,
        }
    }
}

async fn a_stopped_server_neither_oversteps_nor_loses_its_callers_places(place: Place) {
    let scene = Scene::of(&place).await;
    let (held, first, second) = (scene.held, scene.first, scene.second);
    let ([one, _], [_, at_two]) = (&scene.servers, &scene.clients);
    sleep(APART).await;
    let third = waits(at_two, "third");
    sleep(APART).await;

    one.signal(Signal::SIGSTOP);
    let begun = Instant::now();
    held.release().await.unwrap();
    let (granted, second) = second.await.unwrap();
    let paused = granted - begun;
    assert!(paused < PASSED_OVER_WITHIN, "paused for {paused:?}");
    sleep(Duration::from_secs(4).saturating_sub(begun.elapsed())).await;
    one.signal(Signal::SIGCONT);
    sleep(APART).await;

    assert!(!first.is_finished() && !third.is_finished(), "one holds it");
    let (released, before) = (Instant::now(), second.fence("deploy"));
    second.release().await.unwrap();
    let (granted, first) = first.await.unwrap();
    assert!(granted >= released && !third.is_finished());
    let fence = first.fence("deploy");
    assert_eq!(fence, before + 1, "it is the next");
    first.release().await.unwrap();
    let (_, third) = third.await.unwrap();
    assert_eq!(third.fence("deploy"), fence + 1);
    third.release().await.unwrap();
    place.clear().await;
}

/// A run that notes when its command begins and ends.
fn run(house: &House, who: &str, lasts: &str) -> Running {
    let log = house.path("log");
    let log = log.to_str().unwrap();
    let script = format!("echo {who} begins >> {log}; sleep {lasts}; echo {who} ends >> {log}");
    house.start(&["run", "-s", "deploy", "--", "sh", "-c", &script])
}

async fn a_stopped_run_neither_oversteps_nor_loses_its_place(place: Place) {
    let house = House::at(place.url());
    house.text(&["create", "deploy", "1"]);
    house.text(&["acquire", "-s", "deploy", "--id", "held"]);
    let first = run(&house, "first", "0.1");
    sleep(APART).await;
    let second = run(&house, "second", "4.5");
    sleep(APART).await;
    let third = run(&house, "third", "0");
    sleep(APART).await;

    first.signal(Signal::SIGSTOP);
    let continues = Instant::now() + Duration::from_secs(3);
    house.text(&["release", "held"]);
    sleep(continues.saturating_duration_since(Instant::now())).await;
    first.signal(Signal::SIGCONT);
    for run in [first, second, third] {
        let done = run.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    let log = std::fs::read_to_string(house.path("log")).unwrap();
    let log: Vec<_> = log.lines().collect();
    let whole =
        ["second", "first", "third"].map(|who| [format!("{who} begins"), format!("{who} ends")]);
    assert_eq!(log, whole.concat());
    place.clear().await;
}

async fn a_killed_server_delays_those_behind_its_callers_once(place: Place) {
    let scene = Scene::of(&place).await;
    let (held, first, second) = (scene.held, scene.first, scene.second);
    let ([one, _], [_, at_two]) = (&scene.servers, &scene.clients);
    sleep(APART).await;
    let third = waits(at_two, "third");
    sleep(APART).await;

    one.signal(Signal::SIGKILL);
    first.abort();
    let begun = Instant::now();
    held.release().await.unwrap();
    let (granted, second) = second.await.unwrap();
    let paused = granted - begun;
    assert!(paused < PASSED_OVER_WITHIN, "paused for {paused:?}");
    let (released, fence) = (Instant::now(), second.fence("deploy"));
    second.release().await.unwrap();
    let (granted, third) = third.await.unwrap();
    assert_eq!(third.fence("deploy"), fence + 1);
    let paused = granted - released;
    assert!(
        paused < LEFT_FOR,
        "paused for {paused:?}, though it died once"
    );
    third.release().await.unwrap();
    place.clear().await;
}

/// A client waits in calls of 20 s.
async fn a_wait_in_several_calls_keeps_its_place_against_another_server(place: Place) {
    let scene = Scene::of(&place).await;
    let (held, first, second) = (scene.held, scene.first, scene.second);
    sleep(Duration::from_secs(22)).await;
    held.release().await.unwrap();
    let (_, first) = first.await.unwrap();
    assert!(!second.is_finished(), "it was overtaken");
    first.release().await.unwrap();
    let (_, second) = second.await.unwrap();
    second.release().await.unwrap();
    place.clear().await;
}
