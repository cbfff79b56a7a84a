-- The tables of a vault.
CREATE TABLE vault (proof BLOB NOT NULL);
CREATE TABLE field (name TEXT PRIMARY KEY, steps TEXT NOT NULL);
CREATE TABLE subject (name BLOB PRIMARY KEY, salt BLOB NOT NULL UNIQUE, sealed BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE publication (
  number INTEGER PRIMARY KEY, title TEXT NOT NULL, recipient TEXT NOT NULL, field TEXT NOT NULL, epoch INTEGER NOT NULL
);
CREATE TABLE held (salt BLOB, publication INTEGER, PRIMARY KEY (salt, publication)) WITHOUT ROWID;
-- People of publications that are under way.
CREATE TABLE waiting (
  salt BLOB, publication TEXT NOT NULL, field TEXT NOT NULL, PRIMARY KEY (salt, publication)
) WITHOUT ROWID;
