# SPDX-License-Identifier: GPL-2.0-or-later
"""a guest runs a guest of its own, whose code is at an address of its kernel"""

import re

import account

KERNEL = '6.12-cloud'
ROUNDS = 300


def run(lab):
    with lab.guest(modules=('kvm-amd',), cpu='max') as g:
        g.run('modprobe kvm_amd')
        before = g.tell()
        with g.traced('nested.btrail') as trace:
            said = g.run(f'nested {before.address("vfs_read"):x} {ROUNDS}')
            branches = int(re.search(r'branches=(\d+)', said)[1])
        told = g.tell(symbols=before)
    lab.sound(trace)
    # No function has a name for what the nested guest did.
    lab.judge(trace, [told], kernel=1, task=1, programs=lab.programs())
    named = sum(r['records'] for r in account.rows(trace, 'sym')
                if r['sym'] == 'vfs_read')
    lab.check('nested', named < branches // 100,
              f'{named} records are named vfs_read; the nested guest made '
              f'{branches}')
    lab.check('nested', sum(r['records'] for r in account.rows(
        trace, 'sym', '--filter', 'sym == [unknown]')) >= branches,
        f'not all of {branches} records have no name')
