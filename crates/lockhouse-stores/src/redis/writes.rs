//! Writes rows and indexes, if no other process has changed the rows that were read.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use lockhouse_core::Timestamp;
use lockhouse_core::store::{Error, Kind};
use redis::Script;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Redis;
use super::keys::{Score, SetEntry};
use super::rows::{self, ReadRows};

/// For ends and renewals, which a server must save even if its memory is full.
static SAVE: LazyLock<Script> = LazyLock::new(|| Script::new(SCRIPT));

/// For writes that such a server may refuse.
static SAVE_IF_ROOM: LazyLock<Script> =
    LazyLock::new(|| Script::new(&SCRIPT.replacen(" flags=allow-oom", "", 1)));

const SCRIPT: &str = include_str!("scripts/save.lua");

/// How many times rows are edited while other processes change them.
const TRIES: usize = 100;

/// Commands, each preceded by the number of its words.
#[derive(Default)]
pub(super) struct Writes {
    words: Vec<String>,
    /// How many numbers to draw.
    numbers: usize,
    /// Whether a server whose memory is full may refuse them.
    need_memory: bool,
}

impl Writes {
    /// No writes yet. `need_memory` says whether a server whose memory is full may refuse them.
    pub(super) fn new(need_memory: bool) -> Self {
        Self {
            need_memory,
            ..Self::default()
        }
    }

    pub(super) fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.words.push(N.to_string());
        self.words.extend(words.map(str::to_owned));
    }

    pub(super) fn set(&mut self, key: String, row: &impl Serialize) {
        self.add(["SET", &key, &rows::json(row)]);
    }

    /// Replaces the index entries `were` of a row by the entries `are`. A new entry that is sorted by the number of a grant or
    /// change gets the next number.
    pub(super) fn index(&mut self, were: &[SetEntry], are: &[SetEntry]) {
        for SetEntry { key, member, .. } in were {
            let is_left = |is: &SetEntry| is.key == *key && is.member == *member;
            if !are.iter().any(is_left) {
                self.add(["ZREM", key, member]);
            }
        }
        let is_new = |entry: &&SetEntry| !were.contains(entry);
        let new = || are.iter().filter(is_new);
        self.numbers += usize::from(new().any(|entry| entry.score == Score::Number));
        for SetEntry { key, score, member } in new() {
            match score {
                Score::At(at) => self.add(["ZADD", key, &at.as_microsecond().to_string(), member]),
                Score::Count(count) => self.add(["ZADD", key, &count.to_string(), member]),
                Score::Bytes => self.add(["ZADD", key, "0", member]),
                Score::Number => self.add(["NUMBER", key, &self.numbers.to_string(), member]),
            }
        }
    }
}

/// A row of a list that is kept in one key, since it is short.
pub(super) trait Listed: Clone + PartialEq + Serialize + DeserializeOwned {
    /// The name of the list.
    const LIST: &'static str;

    /// The list is sorted by it.
    type Key: Clone + Ord;

    fn key(&self) -> Self::Key;
}

impl Redis {
    /// The rows of a list, by their key.
    pub(super) async fn all<T: Listed>(&self) -> Result<(BTreeMap<T::Key, T>, ReadRows), Error> {
        let read = self.load([self.keys.of(T::LIST)]).await?;
        let lists: Vec<Vec<T>> = rows::all(&read.values)?;
        let rows = lists.into_iter().flatten();
        Ok((rows.map(|row| (row.key(), row)).collect(), read))
    }

    /// Changes a list by `change`. Returns the result of `change`.
    pub(super) async fn change<T: Listed, R>(
        &self,
        change: impl Fn(&mut BTreeMap<T::Key, T>, Timestamp) -> R,
    ) -> Result<R, Error> {
        let context = format!("changing {}", T::LIST);
        self.compare_and_save(&context, || async {
            let (mut list, read) = self.all::<T>().await?;
            let before = list.clone();
            let changed = change(&mut list, read.at);
            if list == before {
                return Ok((changed, None));
            }
            let mut writes = Writes::default();
            let rows: Vec<T> = list.into_values().collect();
            writes.set(self.keys.of(T::LIST), &rows);
            Ok((changed, Some((read, writes))))
        })
        .await
    }

    /// Calls `edit`, which reads rows and says what to write, if anything. Writes that and returns the result, unless a row has
    /// changed since it was read. Then it begins again.
    pub(super) async fn compare_and_save<R, F>(
        &self,
        context: &str,
        edit: impl Fn() -> F,
    ) -> Result<R, Error>
    where
        F: Future<Output = Result<(R, Option<(ReadRows, Writes)>), Error>>,
    {
        for _ in 0..TRIES {
            let (result, edited) = edit().await?;
            let Some((read, writes)) = edited else {
                return Ok(result);
            };
            if self.save(read, Timestamp::MAX, writes, context).await? {
                return Ok(result);
            }
        }
        let busy = format!("{context}: other processes kept changing the rows; try again");
        Err(Error::new(Kind::Conflict, busy))
    }

    /// Executes `writes` and returns true, unless a row has changed since it was `read`, or the
    /// time is later than `latest`.
    pub(super) async fn save(
        &self,
        read: ReadRows,
        latest: Timestamp,
        writes: Writes,
        context: &str,
    ) -> Result<bool, Error> {
        let script = match writes.need_memory {
            true => &SAVE_IF_ROOM,
            false => &SAVE,
        };
        let mut script = script.key(read.keys);
        script.arg(latest.as_microsecond());
        script.arg(self.keys.of("number")).arg(writes.numbers);
        script.arg(read.values).arg(writes.words);
        self.connections.write(&script, context).await
    }
}
