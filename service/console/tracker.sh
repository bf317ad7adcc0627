#!/bin/sh
# The command `tracker`: `make setup` puts it into .venv/bin. It runs worker.py of the folder in which
# that .venv lies, also by a link from elsewhere.
bin=$(dirname -- "$0")
[ -e "$bin/../../worker.py" ] || bin=$(dirname -- "$(readlink -f -- "$0")")
exec "$bin/python" "$bin/../../worker.py" "$@"
