# SPDX-License-Identifier: GPL-2.0-or-later
"""a machine is reset, and boots again"""

import time

import guest

KERNEL = '6.12-cloud'
MODULES = ('tun',)
# The second one's trace does not say which kernel runs, nor which task.
CASES = {'reset': {}, 'reset-unsaid': {'less': {}}}


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
    lab.judge(trace, [second], 'second boot', start=named, programs=programs,
              init=init, task=lab.unnamed(less))
