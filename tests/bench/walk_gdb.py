# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb walks a trace of a billion records: a part of tests/bench/walk.

backtrail gdbserver starts a gdb that runs this file, too.  There it goes to
random records and takes steps back, in the kernel and in programs; the same
places each time.
"""

import json
import os
import random
import statistics
import subprocess
import tempfile
import time

SEED = 1
PLACES = 40
STEPS = 'reverse-step', 'reverse-next', 'reverse-stepi', 'reverse-finish'


def measure(args, build, say):
    """Of steps back the median, 95 % and the worst; the headline is
    'gdb_connect_ms', until gdb's first stop."""
    import backtrail
    import walk_find

    trace = walk_find.trace(args, say)
    with tempfile.TemporaryDirectory(prefix='backtrail-bench-') as folder:
        out = os.path.join(folder, 'times')
        script = os.path.abspath(__file__)
        order = {'out': out, 'places': PLACES,
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


def show(result):
    for name, ms in result.items():
        print(f'{name:32} {ms:8.1f} ms')


if 'BENCH' in os.environ:
    walk(json.loads(os.environ['BENCH']))
