#pragma once

#include <libpq-fe.h>

// Macros with a character constant, which Swift does not import.
static const int daybook_pg_diag_sqlstate = PG_DIAG_SQLSTATE;
static const int daybook_pg_diag_severity = PG_DIAG_SEVERITY_NONLOCALIZED;
static const int daybook_pg_diag_message = PG_DIAG_MESSAGE_PRIMARY;
static const int daybook_pg_diag_schema = PG_DIAG_SCHEMA_NAME;
static const int daybook_pg_diag_table = PG_DIAG_TABLE_NAME;
static const int daybook_pg_diag_column = PG_DIAG_COLUMN_NAME;
static const int daybook_pg_diag_constraint = PG_DIAG_CONSTRAINT_NAME;
