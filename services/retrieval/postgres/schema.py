"""Tables of corpora in PostgreSQL.

A segment of documents is stored once for all snapshots that contain it, as passages and as postings: for each term and
block of passages one row with their places, counts of the term and lengths. Everything can be filled again from the
object store. Texts are stored beside the rows before vectors are, which every exact search reads.
"""

from __future__ import annotations

from typing import Any

SCHEMA = "fathom_retrieval"
# Passages of one row of postings: a commoner term has several rows, none of them large.
BLOCK = 32_768

TABLES = """
CREATE TABLE IF NOT EXISTS segments (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, documents int NOT NULL,
  terms bigint NOT NULL, newest bigint);
CREATE TABLE IF NOT EXISTS passages (
  segment bigint NOT NULL REFERENCES segments ON DELETE CASCADE, place int NOT NULL,
  id_key bigint NOT NULL, content_key bigint NOT NULL, source_key bigint, published bigint,
  source text NOT NULL, type text NOT NULL, entities text[] NOT NULL,
  house text NOT NULL DEFAULT '', rating text NOT NULL DEFAULT '',
  document text STORAGE EXTERNAL NOT NULL, vector vector STORAGE MAIN,
  PRIMARY KEY (segment, place));
CREATE INDEX IF NOT EXISTS passages_id ON passages (id_key);
CREATE INDEX IF NOT EXISTS passages_content ON passages (content_key);
CREATE INDEX IF NOT EXISTS passages_source ON passages (source_key) WHERE source_key IS NOT NULL;
CREATE TABLE IF NOT EXISTS postings (
  term text NOT NULL, segment bigint NOT NULL, block int NOT NULL,
  documents int NOT NULL, places int[] NOT NULL, counts int[] NOT NULL, lengths int[] NOT NULL,
  PRIMARY KEY (term, segment, block));
CREATE TABLE IF NOT EXISTS chains (chain text PRIMARY KEY);
CREATE TABLE IF NOT EXISTS ends (
  segment bigint NOT NULL REFERENCES segments ON DELETE CASCADE, place int NOT NULL,
  chain text NOT NULL, until bigint NOT NULL, deleted boolean NOT NULL, PRIMARY KEY (segment, place, chain));
"""


def create_tables(connection: Any) -> None:
    """Create what is missing; replicas that start together wait for each other."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (SCHEMA,))
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    # By one statement each: the driver prepares what it executes.
    for statement in TABLES.strip().split(";\n"):
        connection.execute(statement)
    # Tables of earlier releases have no reports. Asked first: ALTER TABLE would wait for an ingest under way each time.
    if not connection.execute(
        "SELECT 1 FROM information_schema.columns WHERE table_schema = %s AND table_name = 'passages' "
        "AND column_name = 'rating'",
        (SCHEMA,),
    ).fetchone():
        connection.execute(
            "ALTER TABLE passages ADD COLUMN IF NOT EXISTS house text NOT NULL DEFAULT '', "
            "ADD COLUMN IF NOT EXISTS rating text NOT NULL DEFAULT ''"
        )


def index_vectors(connection: Any, dim: int) -> None:
    """Create the approximate index over all vectors of a dimension, unless it is there."""
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute(
        f"CREATE INDEX IF NOT EXISTS passages_vector_{int(dim)} ON passages "
        f"USING hnsw ((vector::halfvec({int(dim)})) halfvec_ip_ops) WHERE vector_dims(vector) = {int(dim)}"
    )
