#!/bin/sh
# Starts PostgreSQL as the official image does. As root it gives the directory of data to user postgres, and
# becomes that user. Where there is no cluster it makes one, which it sets up through a server that nobody
# reaches from outside. At the end it executes its arguments.
set -e

while read -r key uid rest; do
	[ "$key" != Uid: ] || break
done </proc/self/status
if [ "$uid" = 0 ]; then
	mkdir -p "$PGDATA"
	chown postgres "$PGDATA"
	chmod 700 "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	[ -n "$POSTGRES_PASSWORD" ] || { echo 'Error: POSTGRES_PASSWORD is not set' >&2; exit 1; }
	echo "$POSTGRES_PASSWORD" >/tmp/password
	initdb --username=postgres --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	shift # postgres
	words=
	for word; do words="$words '$word'"; done
	pg_ctl -D "$PGDATA" -o "$words -c listen_addresses=" -w start
	psql --username=postgres --no-password --command='CREATE TABLE made_by_the_entry_point ()' </dev/null
	pg_ctl -D "$PGDATA" -m fast -w stop
	set -- postgres "$@"
fi

exec "$@"
