#!/bin/sh
# Installs into /opt/venv, which has no pip of its own: a lock with its checksums, or --no-deps and wheels.
# "LOCK --above OTHER" leaves out what OTHER has as well: laid over an image of OTHER it makes one of LOCK.
set -eu
packages=/opt/venv/lib/python3.11/site-packages
if [ "$1" = --no-deps ]; then
  /opt/build/bin/pip --python /opt/venv/bin/python3 install --no-cache-dir --no-compile "$@"
else
  lock=$1
  if [ "${2:-}" = --above ]; then
    lock=/tmp/above.txt
    grep -vxF --file "$3" "$1" > "$lock"
  fi
  /opt/build/bin/pip --python /opt/venv/bin/python3 install --no-cache-dir --no-compile --no-deps \
    --only-binary :all: --require-hashes --requirement "$lock"
fi
# Their own tests, a tenth of the sandbox, and of pyarrow what only compilers and Flight read; nothing imports them.
for name in numpy pandas pyarrow Crypto/SelfTest; do
  case $name in
    */*) rm -rf "${packages:?}/$name" ;;
    *) [ ! -d "$packages/$name" ] || find "$packages/$name" -type d -name tests -prune -exec rm -rf {} + ;;
  esac
done
rm -rf "${packages:?}/pyarrow/include" "$packages/pyarrow/"*flight*
# Bytecode that stays valid whatever becomes of the files' times: on a read-only root nobody can write it later. Some
# packages carry templates that are no Python, so compileall's own status says nothing.
/opt/venv/bin/python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages" >/dev/null || true
