"""`make test-device`: the checks of the kernels on the card of this machine, without pytest."""

import sys
import time
import traceback

from tests.flow.device_checks import CHECKS

from kapitza.flow.device import card


def main() -> int:
    print(f"card: {card.cuda().name}")
    failed = []
    for name, check in CHECKS.items():
        begin = time.perf_counter()
        try:
            check()
        except Exception:  # each check is reported on its own
            failed.append(name)
            traceback.print_exc()
        print(f"{'FAILED' if name in failed else 'passed'} {name} {time.perf_counter() - begin:.1f} s", flush=True)
    print(f"{len(CHECKS) - len(failed)} of {len(CHECKS)} checks passed on {card.cuda().name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
