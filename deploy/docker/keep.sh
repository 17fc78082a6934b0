#!/bin/sh
# Removes from /opt/venv the code of all services but the named ones, and the trainers without --trainers: an image has
# what its role runs, so that a hole in one role opens no other's code.
set -eu
cd /opt/venv/lib/python3.11/site-packages/fathom
if [ "${1:-}" = --trainers ]; then shift; else rm -rf trainers; fi
for place in services/*; do
  name=${place#services/}
  case " $* __init__.py " in *" $name "*) ;; *) rm -rf "$place" ;; esac
done
