# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb at a trace, at a live guest and at a replay

What each has to show is in the tests of ./check, which run here with another
gdb than this machine's.
"""

import os
import re

import backtrail
import gdb
import known
import peers

VERSIONS = {'13': ('bookworm', '13.1-3'), '16': ('trixie', '16.3-1'),
            '18': ('sid', '18.1-3')}
# What of tests/integration is about which server
TESTS = {'gdb': ('walk', 'Known'), 'gdb-live': ('gdb-live', 'Exact', 'Walks'),
         'gdb-rr': ('rr-gdb', 'Command')}
ROWS = {f'{kind}-{version}': {'version': version, 'test': test}
        for kind, test in TESTS.items() for version in VERSIONS}


def stock(version):
    """The programs with this gdb"""
    suite, full = VERSIONS[version]
    folder = peers.unpacked(suite, f'gdb={full}')
    programs = peers.Programs(folder)
    programs.add('usr/bin/gdb', f'--data-directory={folder}/usr/share/gdb',
                 PYTHONHOME=f'{folder}/usr')
    peers.equal('gdb --version', re.search(
        r' (\d+)\.', programs.run('gdb', '--version'))[1], version)
    return programs


def counted(programs):
    """Back from the end, a breakpoint is met as often as there were calls."""
    calls = {'known::often': 100, 'known::deep': 41, 'known::once': 1,
             'known::Box<int, long>::operator()': 20, 'known::never': 0}
    words = [word for name in calls
             for word in ('-ex', f'break {name}')]
    words += [word for i in range(len(calls))
              for word in ('-ex', f'ignore {i + 1} 1000')]
    text = peers.said(
        [os.path.join(programs.bin, 'gdb'), '-nx', '-batch',
         '-iex', 'set remotetimeout 60', os.path.join(known.root(), 'known'),
         '-ex', 'target remote | ' + ' '.join((
             backtrail.binary(), 'gdbserver', '--stdio', '--process', 'known',
             '--sysroot', known.root(), known.trace())),
         *words, '-ex', 'reverse-continue', '-ex', 'info breakpoints'])
    if not re.search(gdb.NO_MORE, text):
        raise peers.Wrong(f'gdb does not come to the begin: {text}')
    hits = {}
    for part in re.split(r'\n(?=\d+ +breakpoint)', text)[1:]:
        name = re.search(r' in (.*?)\(', part.replace('operator()', 'operator'))
        hit = re.search(r'already hit (\d+) time', part)
        hits[name[1]] = int(hit[1]) if hit else 0
    peers.equal('hits', hits, {name.replace('operator()', 'operator'): n
                               for name, n in calls.items()})


def run(version, test):
    programs = stock(version)
    if test[0] == 'walk':
        counted(programs)
    peers.tested(programs, 'gdb', *test)
