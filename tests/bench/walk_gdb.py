#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How long gdb takes to walk a trace: part of tests/bench/walk.

usage: walk-gdb.py TRACE [PLACES]

Starts backtrail gdbserver with a gdb that runs this file, too.  There it goes
to random records and takes steps back, in the kernel and in programs; the same
places each time.  Prints measure() as JSON.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

SEED = 1
STEPS = 'reverse-step', 'reverse-next', 'reverse-stepi', 'reverse-finish'


def measure(trace, places=40):
    """{name: ms}: to the first stop of a gdb, and of each step back the median,
    95 % and the worst"""
    sys.path.insert(0, os.path.join(os.path.dirname(
        os.path.abspath(__file__)), '..', 'lib'))
    import backtrail

    with tempfile.TemporaryDirectory(prefix='backtrail-bench-') as folder:
        out = os.path.join(folder, 'times')
        script = os.path.abspath(__file__)
        order = {'out': out, 'places': places, 'start': time.monotonic(),
                 'streams': backtrail.run_json('info', trace)['streams']}
        order['start'] = time.monotonic()
        subprocess.run(
            [backtrail.binary(), 'gdbserver', '--gdb-option=-nx',
             '--gdb-option=-batch', '--gdb-option=-ex',
             f'--gdb-option=source {script}', trace], check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env={**os.environ, 'BENCH': json.dumps(order)})
        with open(out, encoding='ascii') as f:
            times = json.load(f)
    result = {'gdb_connect_ms': times.pop('connect') * 1e3}
    for name, taken in times.items():
        taken = sorted(t * 1e3 for t in taken)
        key = name.replace('-', '_')
        result[f'{key}_ms'] = statistics.median(taken)
        result[f'{key}_95_ms'] = taken[len(taken) * 95 // 100]
        result[f'{key}_worst_ms'] = taken[-1]
    return result


def walk(order):
    """In gdb"""
    import gdb

    def timed(line):
        start = time.monotonic()
        gdb.execute(line, to_string=True)
        return time.monotonic() - start

    times = {name: [] for name in ('goto', *STEPS)}
    times['connect'] = time.monotonic() - order['start']
    chance = random.Random(SEED)
    stream = order['streams'][0]
    for i in range(order['places']):
        index = chance.randrange(stream['first_index'], stream['end_index'])
        times['goto'].append(
            timed(f'monitor goto {stream["vcpu"]}:{index}'))
        # The first step reads a window.
        for _ in range(5):
            name = STEPS[i % len(STEPS)]
            times[name].append(timed(name))
    with open(order['out'], 'w', encoding='ascii') as f:
        json.dump(times, f)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    places = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    print(json.dumps(measure(sys.argv[1], places)))


if 'BENCH' in os.environ:
    walk(json.loads(os.environ['BENCH']))
elif __name__ == '__main__':
    main()
