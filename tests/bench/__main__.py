"""``python -m tests.bench [name …]``: runs the named benchmarks, or all of them."""

from __future__ import annotations

import asyncio
import sys

from tests.bench import identity, policy, stack, transports, weights

BENCHES = {
    "transports": transports.run,
    "stack": stack.run,
    "weights": weights.run,
    "policy": policy.run,
    "identity": identity.run,
}


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(BENCHES)}")
        return 2
    for name in names or list(BENCHES):
        print(f"\n== {name}")
        asyncio.run(BENCHES[name]())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
