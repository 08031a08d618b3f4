import sqlite3, sys

FINISH = """UPDATE lockhouse_permit_request SET
  finished_at = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000,
  expires_at = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
WHERE external_id = ?1 AND state = 'ACQUIRED' AND finished_at IS NULL
  AND (expires_at IS NULL OR expires_at >
    CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)
  AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session AS w
    WHERE w.owner = lockhouse_permit_request.owner AND w.expires_at <=
      CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)
RETURNING id"""
database = sqlite3.connect("bank.db", isolation_level=None)
database.execute("CREATE TABLE IF NOT EXISTS payment (request TEXT PRIMARY KEY, amount INTEGER)")
database.execute("BEGIN IMMEDIATE")
database.execute("INSERT INTO payment VALUES (?, 10)", (sys.argv[1],))
if database.execute(FINISH, (sys.argv[1],)).fetchall():
    database.execute("COMMIT")
    print(f"{sys.argv[1]}: paid")
else:
    database.execute("ROLLBACK")
    print(f"{sys.argv[1]}: not held, nothing was paid")
