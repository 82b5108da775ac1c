#!/bin/sh
# Brings Temporal's two databases to the version of this image. Running it again changes nothing.
# The connection comes from SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN.
set -eu

schemas=/etc/temporal/schema/postgresql/v12

update() {
  temporal-sql-tool --db "$1" setup-schema --version 0.0
  temporal-sql-tool --db "$1" update-schema --schema-dir "$schemas/$2/versioned"
}

update temporal temporal
update temporal_visibility visibility
