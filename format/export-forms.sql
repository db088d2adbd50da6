-- The tables of `ledger export DIR --format sqlite`, version 1 (format/export-forms.md).
-- Times are microseconds since the Unix epoch, in UTC. inspect-json.md specifies the JSON columns.
CREATE TABLE meta (
  name TEXT PRIMARY KEY,            -- schema, ledger, first_seq, last_seq, chain, state_seq, state_hash, complete
  value TEXT
);
CREATE TABLE records (
  seq INTEGER PRIMARY KEY,
  time INTEGER NOT NULL,
  kind TEXT NOT NULL,
  run INTEGER,
  step INTEGER,
  status TEXT NOT NULL,              -- durable, after_damage or unacknowledged
  chain TEXT NOT NULL,
  event TEXT                        -- JSON
);
CREATE TABLE runs (
  run INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  started INTEGER NOT NULL,
  ended INTEGER,
  ended_seq INTEGER,
  version INTEGER NOT NULL,         -- the active one; 0 for none
  steps INTEGER NOT NULL,
  accepted INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  failed INTEGER,                   -- NULL if only the totals are known
  attempts INTEGER NOT NULL,
  money_micros INTEGER NOT NULL,
  tokens INTEGER NOT NULL
);
CREATE TABLE plan_versions (
  run INTEGER NOT NULL,
  version INTEGER NOT NULL,
  hash TEXT NOT NULL,
  title TEXT NOT NULL,
  reason TEXT NOT NULL,
  review TEXT,                      -- approved or rejected
  steps INTEGER NOT NULL,
  plan TEXT NOT NULL,               -- JSON, canonical
  PRIMARY KEY (run, version)
);
CREATE TABLE steps (
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  id TEXT NOT NULL,
  title TEXT,
  goal TEXT,
  owner TEXT,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  accepted TEXT,                    -- JSON: the basis of the acceptance
  last_failure_class TEXT,
  last_failure TEXT,
  PRIMARY KEY (run, step)
);
CREATE TABLE attempts (
  token INTEGER PRIMARY KEY,        -- seq of the dispatch record
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  worker TEXT NOT NULL,
  dispatched INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,     -- as dispatched, without renewals
  idempotency_key TEXT NOT NULL,
  outcome TEXT NOT NULL,               -- in_flight, reported, accepted, lost, outcome_unknown, landed, did_not_happen or failed
  ended_seq INTEGER                 -- the record that ended the attempt
);
CREATE TABLE receipts (
  seq INTEGER PRIMARY KEY,
  token INTEGER NOT NULL,
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  time INTEGER NOT NULL,
  outcome TEXT NOT NULL,            -- succeeded, failed or replan_requested
  failure_class TEXT,
  message TEXT,
  output TEXT,                      -- JSON; NULL if the output is a blob
  output_blob TEXT,                 -- the hash of that blob
  money_micros INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  duration_micros INTEGER NOT NULL,
  refused TEXT                      -- why the receipt does not count; NULL if it counts
);
CREATE TABLE verdicts (
  seq INTEGER PRIMARY KEY,
  token INTEGER,                    -- NULL for a verdict on the plan as a whole
  run INTEGER NOT NULL,
  step INTEGER,
  criterion INTEGER NOT NULL,       -- from 0
  ruling TEXT NOT NULL,             -- pass or fail
  judge TEXT NOT NULL,
  evidence TEXT NOT NULL
);
CREATE TABLE decisions (
  seq INTEGER PRIMARY KEY,
  token INTEGER NOT NULL,
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  class TEXT NOT NULL,
  decision TEXT NOT NULL,           -- JSON
  rule TEXT NOT NULL,
  reason TEXT NOT NULL,
  disposition TEXT NOT NULL,
  afterwards TEXT NOT NULL
);
CREATE TABLE variables (
  run INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT,                       -- JSON
  version INTEGER NOT NULL,
  time INTEGER NOT NULL,
  PRIMARY KEY (run, name)
);
CREATE TABLE damage (
  path TEXT NOT NULL,
  offset INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  first_seq INTEGER,
  last_seq INTEGER,
  what TEXT NOT NULL
);
