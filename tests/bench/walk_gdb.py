# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb walks a trace of a billion records: a part of tests/bench/walk.

backtrail gdbserver starts a gdb that runs this file, too.  There it goes to
random records and takes steps back, in the kernel and in programs; the same
places each time.  From such a place it also goes back to the last system call
(near), and on to its end (next); and from the end to what the whole trace has
once (far).
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
NEAR = 'do_syscall_64'
FAR = 5


def measure(args, build, say):
    """Of each command the median, 95 % and the worst; the headline is
    'gdb_connect_ms', until gdb's first stop."""
    import backtrail
    import walk_find

    trace = walk_find.trace(args, say)
    with tempfile.TemporaryDirectory(prefix='backtrail-bench-') as folder:
        out = os.path.join(folder, 'times')
        script = os.path.abspath(__file__)
        order = {'out': out, 'places': PLACES, 'rare': walk_find.RARE,
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

    times = {name: [] for name in ('goto', *STEPS, 'near', 'next', 'far')}
    times['connect'] = time.monotonic() - order['start']
    chance = random.Random(SEED)
    stream = order['streams'][0]

    def anywhere():
        return chance.randrange(stream['first_index'], stream['end_index'])

    def goto(index):
        return timed(f'monitor goto {stream["vcpu"]}:{index}')

    def stop_at(function):
        gdb.execute('delete', to_string=True)
        gdb.execute(f'break {function}', to_string=True)

    for i in range(order['places']):
        times['goto'].append(goto(anywhere()))
        # The first step reads a window.
        for _ in range(5):
            name = STEPS[i % len(STEPS)]
            times[name].append(timed(name))
    stop_at(NEAR)
    for _ in range(order['places']):
        goto(anywhere())
        took = timed('reverse-continue')
        # Before some records, the trace has no system call.
        if gdb.selected_frame().name() == NEAR:
            times['near'].append(took)
            times['next'].append(timed('next'))
    stop_at(order['rare'])
    for _ in range(FAR):
        goto(stream['end_index'] - 1)
        times['far'].append(timed('reverse-continue'))
        if gdb.selected_frame().name() != order['rare']:
            raise gdb.GdbError(f'{order["rare"]} was not found')
    with open(order['out'], 'w', encoding='ascii') as f:
        json.dump(times, f)


def show(result):
    for name, ms in result.items():
        print(f'{name:32} {ms:8.1f} ms')


if 'BENCH' in os.environ:
    walk(json.loads(os.environ['BENCH']))
