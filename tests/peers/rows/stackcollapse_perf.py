# SPDX-License-Identifier: GPL-2.0-or-later
"""stackcollapse-perf.pl with export -f perf"""

import collections
import re
import shutil

import known
import peers

ROWS = {'stackcollapse-perf.pl': {}}


def shortened(name):
    """A function as the program prints it, without its arguments"""
    return re.sub(r'\((?!anonymous namespace\)).*', '', name)


def run():
    program = shutil.which('stackcollapse-perf.pl')
    if not program:
        raise peers.Missing('no package is known that has '
                            'stackcollapse-perf.pl, and PATH has none')
    got = collections.Counter()
    for line in peers.said([program,
                            peers.export('perf', known.USER)]).splitlines():
        stack, count = line.rsplit(' ', 1)
        got[stack] += int(count)
    want = collections.Counter()
    for stack, count in known.stacks(peers.export('folded',
                                                  known.USER)).items():
        want[';'.join(map(shortened, stack.split(';')))] += count
    peers.equal('stacks', got, want)
    leaf = shortened(known.LEAF)
    peers.equal(leaf, sum(n for stack, n in got.items()
                          if stack.endswith(leaf)), known.LEAF_BRANCHES)
