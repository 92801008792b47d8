# SPDX-License-Identifier: GPL-2.0-or-later
"""a guest runs a guest of its own, whose code is at an address of its kernel"""

import re

import account
import backtrail

KERNEL = '6.12-cloud'
ROUNDS = 300
# Of the nested guest's code: mov $n, %ecx comes before it.
LOOP = 5


def run(lab):
    with lab.guest(modules=('kvm-amd',), cpu='max') as g:
        g.run('modprobe kvm_amd')
        before = g.tell()
        address = before.address('vfs_read')
        with g.traced('nested.btrail') as trace:
            said = g.run(f'nested {address:x} {ROUNDS}')
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
    # VMRUN goes into the nested guest, to that very address.
    entered = [r for r in account.rows(trace, 'sym,to,sym_to')
               if int(r['to'], 16) == address and
               r['sym'].startswith('__svm_vcpu_run')]
    lab.check('nested', {r['sym_to'] for r in entered} == {'[unknown]'},
              f'VMRUN is shown to go to a function: {entered}')
    edges = [e for s in backtrail.run_json(
                 'report', '--filter', 'sym == __svm_vcpu_run', '--top', '1000',
                 trace)['spaces']
             for e in s['edges']
             if int(e['to'], 16) == address]
    lab.check('nested', edges and not any('to_name' in e for e in edges),
              f'VMRUN in address spaces: {edges}')
    # So do moments: its loop is not in the function, which the kernel runs.
    loop = backtrail.run_json('find', '--last', f'*{address + LOOP:#x}', trace)
    lab.check('nested', loop['comm'].startswith('nested:') and
              not any('sym' in loop[at] for at in ('from', 'to', 'at')),
              f'a moment of the nested guest: {loop}')
    found = int(backtrail.run('find', '--count', 'vfs_read', trace).stdout)
    lab.check('nested', 0 < found < branches // 100,
              f'{found} moments of vfs_read; the nested guest has {branches} '
              'at its address')
