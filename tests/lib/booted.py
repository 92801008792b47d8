# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that have booted, in the cache, for tests to continue from.

To boot takes most of the CPU time of a short test.  The first test that needs
a guest boots it, and saves it; all others, of the same QEMU, the same guest and
the same arguments, continue from there.
"""

import contextlib
import os
import shutil
import time

import kept
import qemu

KEEP = 96                       # in the cache; each has some 80 MB


def start(vm, until, like=None, prepare=None):
    """Start a qemu.Qemu where another one was when its guest had written what
    matches until; its serial port says what that one's said.

    like is the arguments of the other one, by default the same; they may
    differ in what is no part of the guest.  The files that they name count by
    what they contain.  prepare is called with the monitor of that one before it
    boots.
    """
    saved = _saved(vm.binary, like or vm.given, until, prepare)
    shutil.copy(os.path.join(saved, 'serial'), vm.path('serial.log'))
    vm.append_serial()
    vm.args += ['-incoming', f'file:{os.path.join(saved, "state")}']
    vm.start()
    _wait(vm, lambda: vm.qmp.command('query-status')['status'] == 'paused',
          'restored')
    vm.qmp.command('cont')


@contextlib.contextmanager
def running(args, until, like=None, **kwargs):
    """A qemu.Qemu of these arguments that was started so."""
    with contextlib.closing(qemu.Qemu(args, **kwargs)) as vm:
        start(vm, until, like)
        yield vm


def save(vm, file):
    """Stop a guest, and write its state into a file."""
    vm.qmp.command('stop')
    vm.qmp.command('migrate', {'uri': f'file:{file}'})
    if vm.qmp.wait_migrated() != 'completed':
        raise qemu.QemuError(f'the guest is not saved: {vm.output()}')


def _wait(vm, condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f'the guest is not {what}: {vm.output()}')
        time.sleep(0.01)


def _saved(binary, args, until, prepare):
    """The folder with the guest of these arguments; made if needed."""
    def make(folder):
        with qemu.Qemu([*args, '-S'], binary=binary) as vm:
            if prepare:
                prepare(vm.qmp)
            vm.qmp.command('cont')
            # On a busy machine it takes a while.
            vm.wait_serial(until, 240)
            save(vm, os.path.join(folder, 'state'))
            shutil.copy(vm.path('serial.log'), os.path.join(folder, 'serial'))

    return kept.folder('booted', KEEP, [kept.content(binary), until,
                                        *kept.described(args)], make)
