# SPDX-License-Identifier: GPL-2.0-or-later
"""a machine is reset, and boots again"""

import time

import account
import guest

KERNEL = '6.12-cloud'
MODULES = ('tun',)
# The second one's trace does not say which kernel runs, nor which task.
CASES = {'reset': {}, 'reset-unsaid': {'less': {}}}


def check_found(lab, trace, **window):
    """The firmware and the decompressor have no tasks.  Of the records with
    names of the kernel's functions most do: it is found soon."""
    rows = [r for r in account.rows(trace, 'comm,dso',
                                    *account.window(trace, **window))
            if r['dso'] == account.KERNEL]
    every = sum(r['records'] for r in rows)
    share = sum(r['records'] for r in rows
                if account.nameless(r['comm'])) / max(every, 1)
    lab.facts['reset: the kernel without a task'] = f'{share:.2%}'
    lab.check('reset', every and share <= 0.25, f'{share:.2%} of {every} '
              'records of the kernel have no task, not at most 25%')


def run(lab, less=None):
    with lab.guest(modules=MODULES, reboots=True) as g:
        before = g.tell()
        with g.traced('reset.btrail', less=less) as trace:
            g.run('spin 200')
            first = g.tell(symbols=before)
            leaves = time.monotonic()
            g.begin('reboot -f')
            g.vm.qmp.wait_event('RESET', 60)
            reset = time.monotonic()
            g.rebooted()
            time.sleep(guest.NAMED_S)
            named = time.monotonic()
            g.run('modprobe tun')
            g.run('counted')
        second = g.tell()
    lab.sound(trace)
    programs = lab.programs()
    lab.judge(trace, [first], 'first boot', end=leaves, programs=programs,
              task=lab.unnamed(less))
    init = [lab.init_code('tun')]
    lab.judge(trace, [second], 'reset', start=reset, end=named, kernel=1,
              task=1, programs=programs, init=init)
    if less is None:
        check_found(lab, trace, start=reset, end=named)
    lab.judge(trace, [second], 'second boot', start=named, programs=programs,
              init=init, task=lab.unnamed(less))
