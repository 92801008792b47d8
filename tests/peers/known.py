# SPDX-License-Identifier: GPL-2.0-or-later
"""The trace of known.cc, a program whose calls are known, and what Backtrail
itself says of it"""

import collections
import os
import shutil
import subprocess

import backtrail
import guest
import kept
import qemu
import recorded

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, 'known.cc')
TIMEOUT = 300
# How often known.cc calls its functions
CALLS = {
    'known::once(int)': 1,
    'known::often()': 100,
    'known::Box<int, long>::operator()(char const*, int) const': 20,
    'known::(anonymous namespace)::hidden(int)': 30,
    'known::deep(int)': 41,
    'known::leaf(int)': 151,
    'known::never()': 0,
}
LEAF = 'known::leaf(int)'
# Which branches leaf() takes
LEAF_BRANCHES = 100 * (3 + 2) + 20 * (10 + 2) + 30 * (50 + 2) + (5 + 2)
USER = '--filter=comm == known && user'


def _make_trace(folder):
    root = os.path.join(folder, 'root')
    os.makedirs(f'{root}/dev')
    subprocess.run(['g++', '-O0', '-g', '-Wall', '-Wextra', '-Werror',
                    '-static', '-no-pie', '-o', f'{root}/known', SOURCE],
                   check=True)
    shutil.copy(f'{root}/known', f'{root}/init')
    initrd = os.path.join(folder, 'initrd')
    guest.pack(root, initrd)
    args = guest.args()
    args[args.index('-initrd') + 1] = initrd
    with qemu.Qemu(['-accel', 'tcg', '-S', '-device', 'branch-trace', *args,
                    '-object', 'memory-backend-memfd,id=ram,size=256M,share=on',
                    '-machine', 'pc,memory-backend=ram'],
                   qmp_sockets=2) as vm:
        with backtrail.Record(vm.qmp_paths[1], f'{folder}/known.btrail',
                              vm.path('log')) as agent:
            vm.qmp.wait_event('BRANCH_TRACE_STATE', match=lambda data:
                              data['state'] == 'active')
            vm.qmp.command('cont')
            vm.wait(TIMEOUT)
            if agent.wait():
                raise qemu.QemuError(agent.output())


def folder():
    """The folder with known.btrail, and root, what the guest had"""
    return recorded.made(_make_trace, SOURCE, kept.content(SOURCE),
                         *guest.args())


def trace():
    return os.path.join(folder(), 'known.btrail')


def root():
    return os.path.join(folder(), 'root')


def reported():
    """{function: branches}, those of it alone, as a report says them"""
    rows = backtrail.run_json('report', '--sort=sym', '--top=0',
                              '--min-share=0', USER, '--sysroot', root(),
                              trace())['rows']
    return {row['sym']: row['records'] for row in rows}


def stacks(path):
    """{stack: branches} of a file in the format folded"""
    counts = collections.Counter()
    with open(path, encoding='utf-8') as f:
        for line in f:
            stack, count = line.rstrip('\n').rsplit(' ', 1)
            counts[stack] += int(count)
    return counts
