//! Batches that change nothing.

use lockhouse_core::{
    Cause, Command, Definition, Epoch, ProcessId, Refusal, Reply, Saved, Stand, Ttl,
};

use super::words::*;
use crate::place::Place;
use crate::place::writes::Writes;

/// The ask whose request holds the semaphore `a`, which is full, for `o`.
fn held() -> Command {
    acquire_for("held", &["a"], Some("o"), Some(600_000))
}

/// Commands that change nothing after [`held`], and what each is. The request `ended` held `a` before.
fn without_change() -> Vec<(&'static str, Command)> {
    let renew = |external_id| Command::Renew {
        external_id: id(external_id),
        ttl: Some(Ttl::from_ms(60_000).unwrap()),
        by: None,
    };
    let must_exist = |command| match command {
        Command::Define(definition) => Command::Define(Definition {
            must_exist: true,
            ..definition
        }),
        Command::Heartbeat { owner, ttl, .. } => Command::Heartbeat {
            owner,
            ttl,
            must_exist: true,
        },
        other => other,
    };
    let silent = || Cause::OwnerSilent { owner: owner("o") };
    let along = Stand {
        process: ProcessId::new(1),
        standing: None,
        saved: Saved::Along,
    };
    vec![
        ("an ask that is refused", acquire("refused", &["a"])),
        (
            "an ask for an unknown semaphore",
            acquire("lost", &["a", "z"]),
        ),
        ("an ask that is granted already", held()),
        ("an ask whose request has ended", acquire("ended", &["a"])),
        ("the same definition", define("a", 1)),
        ("a definition without a row", must_exist(define("z", 1))),
        ("the deletion of a held semaphore", delete("a")),
        ("the deletion of an unknown semaphore", delete("z")),
        ("a renewal after the end", renew("ended")),
        ("a renewal without a request", renew("lost")),
        ("a release after the end", release("ended")),
        ("a release without a request", release("lost")),
        ("an end before its time", end("held", Cause::Expired)),
        ("an end of a live owner's request", end("held", silent())),
        (
            "a heartbeat without a session",
            must_exist(heartbeat("p", 9)),
        ),
        ("a goodbye without a session", goodbye("p")),
        ("a look", Command::look(name("a"))),
        (
            "a look of a process that waits no more",
            Command::Stand {
                name: name("a"),
                stand: along,
            },
        ),
        (
            "an update from no template",
            Command::Follow { name: name("a") },
        ),
        (
            "a fence that is high enough",
            Command::RaiseFence {
                name: name("a"),
                epoch: Epoch::default(),
            },
        ),
    ]
}

/// The rule sends one command after another, and then all in one batch. Then it checks that it sees the write of each command
/// that changes something.
pub async fn a_batch_without_changes_writes_nothing(place: &Place) {
    let store = place.store().await;
    run(&store, [define("a", 1), heartbeat("o", 600_000)]).await;
    run(&store, [acquire("ended", &["a"])]).await;
    run(&store, [release("ended"), held()]).await;
    let before = (semaphore(&store, "a").await, request(&store, "held").await);

    let mut writes = Writes::of(place).await;
    for (of, command) in without_change() {
        let outcome = outcome(&store, command).await;
        assert!(!writes.any().await, "{of}: {outcome:?}");
    }
    let (_, commands): (Vec<_>, Vec<_>) = without_change().into_iter().unzip();
    let told = outcomes(&store, commands).await;
    assert!(!writes.any().await, "{told:?}");
    assert!(matches!(&told[0], Err(Refusal::Exhausted(_))));
    assert!(matches!(&told[2], Ok(Reply::Granted { now: false, .. })));
    let after = (semaphore(&store, "a").await, request(&store, "held").await);
    assert_eq!(after, before);

    for (of, command) in [
        ("a heartbeat", heartbeat("o", 500_000)),
        ("a definition", define("b", 1)),
        ("a grant", acquire("new", &["b"])),
        ("a release", release("new")),
        ("a resize", define("a", 2)),
        ("a goodbye", goodbye("o")),
    ] {
        run(&store, [command]).await;
        assert!(writes.any().await, "{of} is seen");
        assert!(!writes.any().await, "{of} is seen once");
    }
}
