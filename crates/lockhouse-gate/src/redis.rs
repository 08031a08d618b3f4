//! The gate as a script for Redis and Valkey, for a resource that is kept there.
//!
//! [`PASS`] is the beginning of a script. The writer's own commands follow it in the same script, so that no later writer
//! passes in between; [`script`] puts them together. `MULTI` would not do: it runs the commands behind a script that
//! failed.
//!
//! - `KEYS[1]` is the key of the gate of a resource: a hash of slot to fence. On a cluster give it the hash tag of the
//!   keys that are written. The other keys are the writer's.
//! - `ARGV[1]` is the slot, `ARGV[2]` the fence as decimal digits. The other arguments are the writer's.
//!
//! A stale fence ends the script with an error that begins with [`STALE`], before it wrote anything.
//!
//! A failover of Redis may lose acknowledged writes, the gate's too. Where that does harm, keep the resource in a database
//! with SQL.

/// The code of the error of a stale fence.
pub const STALE: &str = "STALEFENCE";

/// Passes the gate, or ends the script with an error.
pub const PASS: &str = "\
if not string.match(ARGV[2], '^[1-9]%d*$') then
  return redis.error_reply('ERR the fence is not a number above 0')
end
local seen = redis.call('HGET', KEYS[1], ARGV[1])
if seen and (#seen > #ARGV[2] or (#seen == #ARGV[2] and seen > ARGV[2])) then
  return redis.error_reply('STALEFENCE a later holder has passed with fence ' .. seen)
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
";

/// A script that passes the gate and then runs `write`.
///
/// ```
/// use lockhouse_gate::redis;
///
/// let publish = redis::script("return redis.call('SET', KEYS[2], ARGV[3])");
/// assert!(publish.starts_with(redis::PASS));
/// ```
pub fn script(write: &str) -> String {
    format!("{PASS}{write}\n")
}
