//! Access to Redis past the store: reads its rows, and runs commands for tests.

use std::time::Duration;

use lockhouse_core::Timestamp;
use lockhouse_lab::history::rows::{CapacityChangeRow, PermitRow, Rows, SemaphoreRow};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use serde_json::Value;

/// The driver's own half second is too short for a look at all rows.
const PATIENCE: Duration = Duration::from_secs(60);

/// All rows of a namespace at one time: the names and rows of semaphores, the requests, and the capacity changes.
const READ: &str = r"
    local function rows(kind)
        local names, rows = {}, {}
        for i, key in ipairs(redis.call('KEYS', ARGV[1] .. kind .. '*')) do
            names[i] = key:sub(#ARGV[1] + #kind + 1)
            rows[i] = redis.call('GET', key)
        end
        return {names, rows}
    end
    return {rows('s:'), rows('r:'), redis.call('ZRANGE', ARGV[1] .. 'changes', 0, -1)}";

/// Deletes all keys that begin with a prefix.
const DELETE: &str = r"
    for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end";

/// Counts the live requests that have expired, whose owner is silent, or that are stale. It reads the indexes of a namespace,
/// which a verification compares with the rows.
const OVERDUE: &str = r"
    local prefix, time = ARGV[1], redis.call('TIME')
    local function ago(seconds) return string.format('%.0f', (time[1] - seconds) * 1000000 + time[2]) end
    local late = ago(1)
    local count = redis.call('ZCOUNT', prefix .. 'expiring', '-inf', late)
    for _, owner in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'sessions', '-inf', late)) do
        for _, id in ipairs(redis.call('ZRANGE', prefix .. 'of:' .. owner, 0, -1)) do
            if redis.call('ZSCORE', prefix .. 'lasting', id) then count = count + 1 end
        end
    end
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'lasting', '-inf', ago(1 + ARGV[2]))) do
        local owner = cjson.decode(redis.call('GET', prefix .. 'r:' .. id)).owner
        if type(owner) ~= 'string' or not redis.call('ZSCORE', prefix .. 'sessions', owner) then count = count + 1 end
    end
    return count";

/// Whether a URL names a Redis or Valkey server.
pub fn is_redis(url: &str) -> bool {
    url.starts_with("redis")
}

/// A connection to the server at `url`, whatever its namespace.
///
/// # Panics
/// If the server does not answer.
pub async fn connect(url: &str) -> MultiplexedConnection {
    let server = url.split('?').next().unwrap();
    let client = redis::Client::open(server).unwrap();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.unwrap()
}

/// The prefix of the keys of the store at `url`.
pub fn prefix(url: &str) -> String {
    let namespace = url.split_once("namespace=");
    format!("{{{}}}:", namespace.map_or("lockhouse", |(_, name)| name))
}

/// Deletes the keys of a namespace.
pub(crate) async fn delete(server: &str, namespace: &str) {
    let delete = redis::Script::new(DELETE);
    let mut connection = connect(server).await;
    let deleted = delete.arg(format!("{{{namespace}}}:"));
    let () = deleted.invoke_async(&mut connection).await.unwrap();
}

/// Writes the line of a semaphore, past the store, and nothing else.
pub(crate) async fn overwrite_line(url: &str, semaphore: &str, line: &str) {
    let script = redis::Script::new(
        r#"local row = redis.call('GET', KEYS[1]):gsub(',"line":"[^"]*"', '')
        redis.call('SET', KEYS[1], row:sub(1, -2) .. ',"line":"' .. ARGV[1] .. '"}')"#,
    );
    let key = format!("{}s:{semaphore}", prefix(url));
    let mut connection = connect(url).await;
    let mut write = script.key(key);
    let () = write.arg(line).invoke_async(&mut connection).await.unwrap();
}

/// Changes the row of `key` by `change`, past the store, without a check for other writes meanwhile.
pub async fn change(url: &str, key: &str, change: impl FnOnce(&mut Value)) {
    let key = format!("{}{key}", prefix(url));
    let mut connection = connect(url).await;
    let row: Option<String> = redis::cmd("GET")
        .arg(&key)
        .query_async(&mut connection)
        .await
        .unwrap();
    let Some(row) = row else { return };
    let mut row: Value = serde_json::from_str(&row).unwrap();
    change(&mut row);
    let mut set = redis::cmd("SET");
    set.arg(&key).arg(row.to_string());
    let () = set.query_async(&mut connection).await.unwrap();
}

/// Writes the version of the schema, past the store.
pub(crate) async fn overwrite_schema(url: &str, version: u32) {
    let mut connection = connect(url).await;
    let mut set = redis::cmd("SET");
    set.arg(format!("{}schema", prefix(url))).arg(version);
    let () = set.query_async(&mut connection).await.unwrap();
}

/// Removes a request, past the store, from the sets by which a refusal finds it once it has lapsed.
pub(crate) async fn misfile(url: &str, external_id: &str) {
    let script = redis::Script::new(
        "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. 'expiring:*')) do redis.call('ZREM', key, ARGV[2]) end",
    );
    let mut connection = connect(url).await;
    let mut remove = script.arg(prefix(url));
    let remove = remove.arg(external_id);
    let () = remove.invoke_async(&mut connection).await.unwrap();
}

/// How many live requests should have ended more than a second ago: by their TTL, by their owner's session, or as stale after
/// `stale_after`.
pub(crate) async fn overdue(url: &str, stale_after: Duration) -> i64 {
    let script = redis::Script::new(OVERDUE);
    let mut connection = connect(url).await;
    let mut count = script.prepare_invoke();
    let count = count.arg(prefix(url)).arg(stale_after.as_secs());
    count.invoke_async(&mut connection).await.unwrap()
}

/// The rows of the store at `url` whose names and ids begin with `prefix`.
pub(crate) async fn rows(url: &str, of: &str) -> Rows {
    type Named = (Vec<String>, Vec<String>);
    let script = redis::Script::new(READ);
    let mut connection = connect(url).await;
    let (semaphores, requests, changes): (Named, Named, Vec<String>) = script
        .arg(prefix(url))
        .invoke_async(&mut connection)
        .await
        .unwrap();
    let named = |(names, rows): Named| {
        let rows = names.into_iter().zip(rows);
        let of_it = rows.filter(|(name, _)| name.starts_with(of));
        let parsed = of_it.map(|(name, row)| (name, serde_json::from_str::<Value>(&row).unwrap()));
        parsed.collect::<Vec<_>>()
    };
    let changes = changes.into_iter().map(|member| {
        let (name, change) = member.split_once('\0').unwrap();
        let (_, row) = change.split_once(' ').unwrap();
        (name.to_owned(), row.to_owned())
    });
    Rows {
        semaphores: named(semaphores)
            .into_iter()
            .map(|(name, row)| SemaphoreRow {
                name,
                capacity: number(&row, "capacity").unwrap(),
                in_use: number(&row, "in_use").unwrap(),
                fence: number(&row, "fence").unwrap(),
                created_at: time(&row["created_at"]).unwrap(),
                is_deleted: time(&row["deleted_at"]).is_some(),
            })
            .collect(),
        permits: named(requests)
            .iter()
            .flat_map(|(id, row)| permits(id, row))
            .collect(),
        capacity_changes: named(changes.unzip())
            .into_iter()
            .map(|(semaphore, row)| CapacityChangeRow {
                semaphore,
                old_capacity: number(&row, "old_capacity").unwrap(),
                new_capacity: number(&row, "new_capacity").unwrap(),
                changed_at: time(&row["changed_at"]).unwrap(),
            })
            .collect(),
    }
}

fn permits(id: &str, row: &Value) -> Vec<PermitRow> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let end = &row["state"]["released"];
    let permits = row["permits"].as_array().unwrap().iter();
    let permits = permits.map(|permit| PermitRow {
        external_id: id.to_owned(),
        semaphore: permit["semaphore"].as_str().unwrap().to_owned(),
        count: number(permit, "count").unwrap(),
        fence: number(permit, "fence").unwrap(),
        slots: text(&permit["slots"]),
        owner: text(&row["owner"]),
        state: match end.is_null() {
            true => "ACQUIRED".to_owned(),
            false => "RELEASED".to_owned(),
        },
        end_reason: text(&end["reason"]),
        granted_at: time(&row["created_at"]).unwrap(),
        expires_at: time(&row["expires_at"]),
        released_at: time(&end["at"]),
    });
    permits.collect()
}

fn number(row: &Value, of: &str) -> Option<i64> {
    row[of].as_i64()
}

/// In microseconds.
fn time(value: &Value) -> Option<i64> {
    let time: Timestamp = value.as_str()?.parse().unwrap();
    Some(time.as_microsecond())
}
