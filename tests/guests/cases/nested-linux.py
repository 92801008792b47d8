# SPDX-License-Identifier: GPL-2.0-or-later
"""a guest runs a Linux of its own, by AMD-V, which boots while it is traced"""

import os
import re
import time

import account
import backtrail
import guest
import kernels
import realguest

CASES = {
    'nested-linux': {'kernel': '6.12-cloud', 'second': '6.12-cloud'},
    'nested-linux-6.1': {'kernel': '6.12-cloud', 'second': '6.1-cloud'},
    'nested-linux-7.3': {'kernel': '7.3-cloud', 'second': '7.3-cloud'},
    'nested-linux-la57': {'kernel': '6.12-cloud', 'second': '6.12-cloud',
                          'cpu': 'max'},
    'nested-linux-pti': {'kernel': '6.12-cloud', 'second': '6.12-cloud',
                         'words': ['pti=on']},
}
WORDS = ' '.join((*realguest.WORDS, realguest.EVENTS, 'quiet', 'reboot=k',
                  'acpi=off'))
MIB = 256
# What CR3 has of a nested guest, as the producer reports it
INNER = ('--filter', 'cr3 >= 0x1000000000000000 && cr3 < 0x2000000000000000')
OUTER = ('--filter', 'cr3 < 0x1000000000000000')
COUNTED = r'^BT: counted pid=(\d+) calls=(\d+) getpriority=(\d+) '


def run(lab, second, cpu='max,la57=off', words=()):
    initrd = os.path.join(lab.folder, 'second')
    folder = kernels.make_initrd(kernels.table()[second], initrd)
    files = {'/second/vmlinuz': os.path.join(folder, 'vmlinuz'),
             '/second/initrd': initrd}
    line = ' '.join((WORDS, *words))
    with lab.guest(modules=('kvm-amd',), cpu=cpu, memory=1024,
                   files=files) as g:
        g.run('modprobe kvm_amd')
        with g.traced('nested.btrail') as trace:
            begun = time.monotonic()
            number = g.begin(
                f"inner /second/vmlinuz /second/initrd {MIB} '{line}'")
            g.rebooted()
            lab.facts['boots in'] = f'{time.monotonic() - begun:.1f} s'
            time.sleep(guest.NAMED_S)
            named = time.monotonic()
            g.run('spin 300')
            command = g.begin(f'counted {guest.NAMED_S}')
            counted = g.wait(COUNTED)
            g.end(command)
            g.run('seq 1000 | sort -n | md5sum')
        inner = g.tell()
        g.begin('reboot -f')
        g.end(number)
        g.commands = number
        outer = g.tell()
    programs = lab.programs()
    lab.sound(trace)
    # What each does has its own names alone.
    lab.judge(trace, [outer], 'guest', options=OUTER, programs=programs)
    lab.judge(trace, [inner], 'nested guest', start=named,
              options=INNER, programs=programs)
    lab.judge(trace, [inner], 'nested guest boots', end=named, kernel=1,
              task=1, options=INNER, programs=programs)
    # It is another kernel.
    ran = {k['number']: k for k in backtrail.run_json('info', trace)['kernels']
           if k['kind'] == 'kernel'}
    lab.check('info', len(ran) == 2 and ran[2]['release'] == kernels.release(
        os.path.join(folder, 'vmlinuz')) and ran[2]['nested'] and
        not ran[1]['nested'], f'kernels {ran}')
    # What a program has counted in there
    pid, calls, asked = (int(n) for n in counted.groups())
    made = {(r['comm'], r['sym']): r['calls'] for kind in
            ('--children', '--syscalls') for r in account_calls(trace, kind)}
    lab.check('calls', made.get(('computes', 'counted_step')) == calls,
              f'counted_step was called {calls} times, not '
              f'{made.get(("computes", "counted_step"))}')
    lab.check('system calls', made.get(('asks', 'getpriority')) == asked,
              f'getpriority was called {asked} times, not '
              f'{made.get(("asks", "getpriority"))}')
    names = {(r['comm'], r['pid'])
             for r in account.rows(trace, 'comm,pid', *INNER)}
    for comm in 'counted', 'computes', 'asks':
        lab.check('threads', (comm, str(pid)) in names,
                  f'no records of {comm}, pid {pid}: {names}')
    # The task of the guest comes back when the nested one leaves.
    exits = [r for r in account.rows(trace, 'comm,sym', *OUTER)
             if re.fullmatch(r'(vcpu_|svm_vcpu_|kvm_arch_vcpu_ioctl_)run',
                             r['sym'])]
    lab.check('exits', exits and {r['comm'] for r in exits} == {'inner'},
              f'the nested guest is run by {exits}')


def account_calls(trace, kind):
    return backtrail.run_json('report', kind, '--min-share', '0', '--comm',
                              'counted,computes,asks', trace,
                              check=False)['rows']
