#!/bin/sh
# Installs into /opt/venv, which has no pip of its own: a lock with its checksums, or --no-deps and wheels.
# "LOCK --above OTHER…" leaves out what the OTHERs have as well: laid over their packages it makes an image of LOCK.
set -eu
packages=/opt/venv/lib/python3.11/site-packages
if [ "$1" = --no-deps ]; then
  /opt/build/bin/pip --python /opt/venv/bin/python3 install --no-cache-dir --no-compile "$@"
else
  lock=$1
  shift
  if [ "${1:-}" = --above ]; then
    shift
    cat "$@" > /tmp/below.txt
    grep -vxF --file /tmp/below.txt "$lock" > /tmp/above.txt
    lock=/tmp/above.txt
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
# Nor does anything read tables from S3 or Hadoop by pyarrow: the object store is reached by its own client.
rm -rf "${packages:?}/pyarrow/include" "$packages/pyarrow/"*flight* "$packages/pyarrow/"*_s3* "$packages/pyarrow/"_hdfs*
find "$packages" -regex '.*/\(pyarrow\|uvloop\|lxml\|grpc\)/.*\.\(pyx\|pxd\|pxi\|h\|c\)' -delete
# The names that compilers ask for: a wheel holds no links, so each is a whole copy of what the loader reads.
rm -f "$packages/pyarrow/"libarrow_python*.so "$packages/pyarrow/"libarrow_python*.so.*.*
# Symbols for debuggers, half of some libraries; those named here load without them (tests/images).
for library in typst/_typst.abi3.so pyarrow/libarrow.so.* uvloop/loop.*.so cryptography/hazmat/bindings/_rust.abi3.so; do
  find "$packages" -path "$packages/$library" -exec strip --strip-unneeded {} +
done
# Bytecode that stays valid whatever becomes of the files' times: on a read-only root nobody can write it later. Some
# packages carry templates that are no Python, so compileall's own status says nothing.
/opt/venv/bin/python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages" >/dev/null || true
