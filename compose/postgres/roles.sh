#!/bin/bash
# Run once by the PostgreSQL image, on an empty volume: a role for each of Daybook's programs.
set -euo pipefail

# The passwords go by standard input, not by the command line.
psql --no-psqlrc --set=ON_ERROR_STOP=1 --quiet --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<SQL
\set migrations '$(cat /run/secrets/migrations-password)'
\set aggregator '$(cat /run/secrets/aggregator-password)'
\set wake '$(cat /run/secrets/wake-password)'
SELECT format('CREATE ROLE %I NOLOGIN', name) FROM unnest(ARRAY['daybook_worker', 'daybook_wake', 'daybook_reader']) AS name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
CREATE ROLE migrations LOGIN PASSWORD :'migrations';
CREATE ROLE aggregator LOGIN PASSWORD :'aggregator' IN ROLE daybook_worker;
CREATE ROLE wake LOGIN PASSWORD :'wake' IN ROLE daybook_wake;
ALTER DATABASE :"DBNAME" OWNER TO migrations;
REVOKE CONNECT ON DATABASE :"DBNAME" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"DBNAME" TO daybook_worker, daybook_wake, daybook_reader;
SQL
