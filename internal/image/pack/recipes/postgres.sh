#!/bin/sh
# What tare packs with PostgreSQL: it begins with a new cluster where there is
# none, and trusts everybody who reaches it. For measurements, not for data.
set -e
while read -r key uid rest; do
	[ "$key" != Uid: ] || break
done </proc/self/status
if [ "$uid" = 0 ]; then # the server refuses to be root
	exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	initdb --username=postgres --auth=trust --encoding=UTF8 --locale=C >&2
	echo 'host all all all trust' >>"$PGDATA/pg_hba.conf"
fi
exec postgres "$@"
