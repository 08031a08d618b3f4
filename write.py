import sqlite3, sys

slot, fence, text = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
database = sqlite3.connect("report.db", isolation_level=None)
database.executescript("""
CREATE TABLE IF NOT EXISTS lockhouse_gate (
  resource TEXT NOT NULL,
  slot INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  passes INTEGER NOT NULL,
  PRIMARY KEY (resource, slot),
  CONSTRAINT lockhouse_stale_fence CHECK (fence > 0)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS report (slot INTEGER PRIMARY KEY, body TEXT);
""")
PASS = """INSERT INTO lockhouse_gate AS seen (resource, slot, fence, passes) VALUES (?1, ?2, ?3, 1)
ON CONFLICT (resource, slot) DO UPDATE SET
  fence = CASE WHEN excluded.fence < seen.fence THEN -1 ELSE excluded.fence END,
  passes = seen.passes + 1"""
database.execute("BEGIN IMMEDIATE")
try:
    database.execute(PASS, ("report", slot, fence))
    database.execute("REPLACE INTO report VALUES (?, ?)", (slot, text))
    database.execute("COMMIT")
    print(f"{text}: written")
except sqlite3.IntegrityError as error:
    database.execute("ROLLBACK")
    print(f"{text}: refused, {error}")
