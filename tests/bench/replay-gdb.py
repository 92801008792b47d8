# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands of gdb, and how long they take: runs in a gdb that `backtrail rr
replay --gdb` has started, for tests/bench/replay.

$BENCH has what to do, as JSON: the last place, places to go to and the seed of
their choice, and the file that gets {command: [[wall, CPU time]]} in seconds.
"""

import json
import os
import random
import time

import gdb

FAR_ROUNDS = 5
TICKS = os.sysconf('SC_CLK_TCK')


def family():
    """backtrail, its QEMU and this gdb"""
    parent = os.getppid()
    with open(f'/proc/{parent}/task/{parent}/children',
              encoding='ascii') as f:
        return [parent, *f.read().split()]


def cpu():
    total = 0
    for pid in family():
        with open(f'/proc/{pid}/stat', encoding='ascii') as f:
            fields = f.read().rpartition(')')[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def run(line):
    return gdb.execute(line, to_string=True)


def timed(line):
    before, start = cpu(), time.monotonic()
    run(line)
    return time.monotonic() - start, cpu() - before


def go(place):
    run(f'monitor goto {place}')


def main(order):
    chance = random.Random(order['seed'])
    times = {'goto': [], 'reverse_stepi': [], 'near': [],
             'reverse_continue': []}
    first, end = order['end'] // 50, order['end']
    go(end)
    places = [chance.randrange(first, end) for _ in range(order['places'])]
    for place in places:
        times['goto'].append(timed(f'monitor goto {place}'))
        times['reverse_stepi'].append(timed('reverse-stepi'))
    run('break *do_syscall_64')
    go(end)
    for place in sorted(places)[len(places) // 2:]:
        go(place)
        times['near'].append(timed('reverse-continue'))
    run('delete')
    run('break *start_kernel')
    for _ in range(FAR_ROUNDS):
        go(end)
        times['reverse_continue'].append(timed('reverse-continue'))
        if gdb.selected_frame().name() != 'start_kernel':
            raise gdb.GdbError('it is not where the kernel starts')
    with open(order['out'], 'w', encoding='ascii') as f:
        json.dump(times, f)


main(json.loads(os.environ['BENCH']))
run('kill')
