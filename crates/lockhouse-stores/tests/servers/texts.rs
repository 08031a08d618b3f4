//! Texts: compared byte by byte, and never taken for SQL.

use lockhouse_core::{
    Ask, Capacity, Command, Count, Definition, Note, Owner, Reply, SemaphoreName,
};

use crate::database::{
    Database, define, granted, heartbeat, id, name, on_every_server, one, owner,
};

on_every_server! {
    any_text_comes_back_as_it_was,
    every_text_is_compared_byte_by_byte,
}

async fn any_text_comes_back_as_it_was(database: &Database) {
    let store = database.migrated().await;
    let mut texts: Vec<String> = [
        "'; DROP TABLE lockhouse_semaphore; --",
        "\\",
        "\\'",
        "''",
        "\"`",
        "x'00'",
        "%_",
        "🚀👩‍👩‍👧",
        "/*!99999 x */",
        "\u{10ffff}",
    ]
    .map(str::to_owned)
    .into();
    texts.extend([255 / 4, 255 / 3].map(|n| "🚀".repeat(n.min(63))));
    texts.push("x".repeat(255));
    texts.extend((0..50).map(|seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let chars = std::iter::repeat_with(|| random.char('!'..)).filter(|c| !c.is_control());
        chars.take(60).collect::<String>().trim().to_owned()
    }));
    texts.retain(|text| SemaphoreName::parse(text).is_ok());
    assert!(texts.len() > 40);

    let tables = database.sql(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=DATABASE()",
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=current_schema()",
    );
    let mut session = database.session().await;
    let tables_before = session.number(tables).await;
    for text in &texts {
        let note = Note::parse(text).unwrap();
        let by = Owner::parse(text).unwrap();
        one(&store, define(text, 1)).await.unwrap().unwrap();
        let resize = Command::Define(Definition {
            must_exist: true,
            changed_by: Some(by.clone()),
            note: Some(note.clone()),
            ..Definition::new(name(text), Capacity::new(2).unwrap())
        });
        one(&store, resize).await.unwrap().unwrap();
        let mut ask = Ask::new(id(text), [(name(text), Count::ONE)]).unwrap();
        ask.owner = Some(by.clone());
        let (request, _) = granted(one(&store, Command::acquire(ask)).await.unwrap());
        assert_eq!(store.request(&id(text)).await.unwrap().unwrap(), request);
        let history = store.history(&name(text), 10).await.unwrap();
        assert_eq!(history[0].changed_by, Some(by));
        assert_eq!(history[0].note, Some(note));
    }
    assert_eq!(session.number(tables).await, tables_before);
}

async fn every_text_is_compared_byte_by_byte(database: &Database) {
    let store = database.migrated().await;
    let other = database.sql(
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema=DATABASE() \
         AND data_type='varchar' \
         AND collation_name NOT IN ('utf8mb4_0900_bin','utf8mb4_nopad_bin','ascii_bin')",
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema=current_schema() \
         AND data_type='text' AND (collation_name IS NULL OR collation_name<>'C')",
    );
    assert_eq!(database.session().await.number(other).await, 0);
    for (ttl_ms, of) in (1000..).zip(["Job", "job", "jób", "a", "á"]) {
        let heard = one(&store, heartbeat(of, ttl_ms)).await.unwrap().unwrap();
        assert!(matches!(heard, Reply::Heard { session, .. } if session.owner == owner(of)));
    }
    let sessions = "SELECT COUNT(*) FROM lockhouse_owner_session";
    assert_eq!(database.session().await.number(sessions).await, 5);
}
