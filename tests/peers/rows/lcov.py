# SPDX-License-Identifier: GPL-2.0-or-later
"""lcov and genhtml with export -f lcov

That they take it, alone and with counts of gcov, is in the test coverage, which
runs here with these versions.
"""

import html
import os
import re

import known
import peers

VERSIONS = {'1.16': ('bookworm', '1.16-1'), '2.3': ('trixie', '2.3.1-1'),
            '2.5': ('sid', '2.5-2')}
ROWS = {f'lcov-{version}': {'version': version} for version in VERSIONS}
# How often lines run that are there once
LINES = {'leaf(3);': 100, 'deep(n - 1);': 40, 'leaf(5);': 1, 'sink--;': 0}
# Its file has no whole name of one without a linkage of its own.


def page(folder, name):
    for at, _, files in os.walk(folder):
        if name in files:
            with open(os.path.join(at, name), encoding='utf-8') as f:
                return f.read()
    raise peers.Wrong(f'genhtml has made no {name}')


def functions(text):
    """{function: calls} of genhtml's page of functions"""
    found = {html.unescape(name): int(count) for name, count in re.findall(
        r'class="coverFn"><a [^>]*>(.*?)</a></td>\s*'
        r'<td class="coverFn(?:Hi|Lo)">(\d+)<', text)}
    return found


def lines(text):
    """{line: how often it runs} of genhtml's page of a source"""
    text = html.unescape(re.sub('<[^>]*>', '', text))
    return {line: int(count) for count, line in
            re.findall(r'^ *\d+ +(\d+) : +(.*)$', text, re.M)}


def run(version):
    suite, full = VERSIONS[version]
    programs = peers.Programs(peers.unpacked(suite, f'lcov={full}'))
    programs.add_perl('usr/bin/lcov', 'usr/bin/genhtml', 'usr/bin/geninfo')
    path = peers.export('lcov', '--comm=known')
    pages = os.path.join(programs.bin, 'pages')
    programs.run('genhtml', '--demangle-cpp', '-o', pages, path)
    peers.equal('functions', functions(page(pages, 'known.cc.func.html')),
                {**known.CALLS, 'main': 1})
    found = lines(page(pages, 'known.cc.gcov.html'))
    peers.equal('lines', {line: found.get(line) for line in LINES}, LINES)
    both = os.path.join(programs.bin, 'both')
    programs.run('lcov', '-a', path, '-a', path, '-o', both)
    with open(both, encoding='utf-8') as f:
        counts = re.findall(r'^FN(?:DA:|A:\d+,)(\d+),_ZN5known4leafEi$',
                            f.read(), re.M)
    peers.equal('calls of leaf() in two', counts,
                [str(2 * known.CALLS[known.LEAF])])
    peers.tested(programs, 'geninfo', 'coverage', 'Coverage.test_tools')
