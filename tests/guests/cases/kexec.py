# SPDX-License-Identifier: GPL-2.0-or-later
"""a kernel starts another one by kexec, or dies and leaves that to kdump"""

import os
import time

import account
import guest
import kernels
import realguest

KERNEL = '6.12-cloud'
# earlyprintk: so that the decompressor says when it runs
WORDS = ' '.join((*realguest.WORDS, realguest.EVENTS, 'loglevel=5',
                  'earlyprintk=ttyS0'))
CASES = {
    'kexec': {'second': '6.1-cloud'},
    'kexec-7.3': {'second': '7.3-cloud'},
    'kdump': {'second': '6.12-cloud', 'how': 'panic',
              'words': ['crashkernel=256M']},
    'kdump-7.3': {'kernel': '7.3-cloud', 'second': '7.3-cloud',
                  'how': 'panic', 'words': ['crashkernel=256M']},
    # The trace does not say which kernel runs: as KVM's producer, or as that of
    # an older QEMU.
    'kexec-unsaid': {'second': '6.1-cloud', 'less': {}},
    'kexec-older': {'second': '6.1-cloud', 'less': {'tasks': True}},
    # Both kernels at one address
    'kexec-same-place': {'second': '6.1-cloud', 'less': {},
                         'words': ['nokaslr'], 'more': ' nokaslr'},
    'kdump-unsaid': {'second': '6.12-cloud', 'how': 'panic',
                     'words': ['crashkernel=256M'], 'less': {}},
}
GO = {'load': 'kexec go',
      'panic': 'echo 1 >/proc/sys/kernel/sysrq; kexec crash'}


def run(lab, second, how='load', words=(), less=None,
        more=''):
    initrd = os.path.join(lab.folder, 'second')
    folder = kernels.make_initrd(kernels.table()[second], initrd)
    files = {'/second/vmlinuz': os.path.join(folder, 'vmlinuz'),
             '/second/initrd': initrd}
    with lab.guest(files=files, words=words, memory=768) as g:
        before = g.tell()
        with g.traced('kexec.btrail', less=less) as trace:
            g.run('spin 300')
            g.run(f"kexec {how} /second/vmlinuz /second/initrd '{WORDS}"
                  f"{more}{' nr_cpus=1' if how == 'panic' else ''}'")
            first = g.tell(symbols=before)
            leaves = time.monotonic()
            g.begin(GO[how])
            g.wait('KASLR (using|disabled)|Linux version', 60)
            jumped = time.monotonic()
            g.rebooted()
            time.sleep(guest.NAMED_S)
            named = time.monotonic()
            g.run('spin 300')
            g.run('seq 1000 | sort -n | md5sum')
        second = g.tell()
    lab.facts['the second kernel comes'] = f'{jumped - leaves:.1f} s later'
    programs = lab.programs()
    lab.sound(trace)
    lab.judge(trace, [first], 'first kernel', end=leaves, programs=programs,
              task=lab.unnamed(less))
    # What its decompressor does has no name, nor what it does until it has been
    # found.
    lab.judge(trace, [second], 'second kernel boots', start=jumped, end=named,
              kernel=1, task=1, programs=programs)
    lab.judge(trace, [second], 'second kernel', start=named,
              programs=programs, task=lab.unnamed(less))
    # All that the program kexec does itself has names; its page tables stay
    # those of what comes then, for a while.
    for row in account.rows(trace, 'sym', '--comm', 'kexec', '--filter',
                            'user && sym == [unknown]'):
        lab.check('kexec', row['records'] < 1000, f'{row["records"]} records '
                  'without a function are given to the task that has gone')
