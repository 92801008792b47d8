# SPDX-License-Identifier: GPL-2.0-or-later
"""flamegraph.pl with export -f folded"""

import collections
import html
import re

import known
import peers

# Of Perl's profiler, which has a copy
VERSIONS = {'6.14': ('trixie', '6.14+dfsg-1+b3')}
ROWS = {'flamegraph.pl': {'version': '6.14'}}


def shown(name):
    """A function as it is shown: these brackets are none for it"""
    return name.translate(str.maketrans('<>', '()'))


def run(version):
    """Boxes of the graph have the branches of their stacks."""
    suite, full = VERSIONS[version]
    programs = peers.Programs(peers.unpacked(
        suite, f'libdevel-nytprof-perl={full}'))
    programs.add_perl('usr/share/perl5/Devel/NYTProf/flamegraph.pl')
    path = peers.export('folded', known.USER)
    # Each title is a box: a function, with all that it has called
    boxes = collections.Counter()
    for title in re.findall('<title>(.*?)</title>', programs.run(
            'flamegraph.pl', '--minwidth=0', path)):
        found = re.fullmatch(r'(.*) \(([\d,]+) samples, [\d.]+%\)',
                             html.unescape(title))
        if found:
            boxes[found[1]] += int(found[2].replace(',', ''))
    stacks = known.stacks(path)
    want = collections.Counter({'all': sum(stacks.values())})
    for stack, count in stacks.items():
        for name in stack.split(';'):
            want[shown(name)] += count
    peers.equal('boxes', boxes, want)
    peers.equal(known.LEAF, boxes[known.LEAF], known.LEAF_BRANCHES)
    peers.equal(known.LEAF, boxes[known.LEAF], known.reported()[known.LEAF])
