# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that have booted, in the cache, for tests to continue from.

To boot takes most of the CPU time of a short test.  The first test that needs
a guest boots it, and saves it; all others, of the same QEMU, the same guest and
the same arguments, continue from there.
"""

import fcntl
import hashlib
import os
import shutil
import time

import qemu

KEEP = 64                       # in the cache; each has some 80 MB


def start(vm, until, like=None, prepare=None):
    """Start a qemu.Qemu where another one was when its guest had written what
    matches until; its serial port says what that one's said.

    like is the arguments of the other one, by default the same; they may
    differ in what is no part of the guest, and name no file that only this
    test has.  prepare is called with the monitor of that one before it boots.
    """
    saved = _saved(vm.binary, like or vm.given, until, prepare)
    shutil.copy(os.path.join(saved, 'serial'), vm.path('serial.log'))
    vm.append_serial()
    vm.args += ['-incoming', f'file:{os.path.join(saved, "state")}']
    vm.start()
    _wait(vm, lambda: vm.qmp.command('query-status')['status'] == 'paused',
          'restored')
    vm.qmp.command('cont')


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
    stat = os.stat(binary)
    key = hashlib.sha256('\0'.join(
        [binary, str(stat.st_mtime_ns), str(stat.st_size), until, *args])
        .encode()).hexdigest()[:16]
    top = os.path.join(qemu.cache(), 'booted')
    folder = os.path.join(top, key)
    locks = os.path.join(qemu.cache(), 'lock')
    os.makedirs(top, exist_ok=True)
    os.makedirs(locks, exist_ok=True)
    with open(os.path.join(locks, f'booted-{key}'), 'w',
              encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(folder):
            new = f'{folder}.new'
            shutil.rmtree(new, ignore_errors=True)
            os.mkdir(new)
            with qemu.Qemu([*args, '-S'], binary=binary) as vm:
                if prepare:
                    prepare(vm.qmp)
                vm.qmp.command('cont')
                # On a busy machine it takes a while.
                vm.wait_serial(until, 240)
                save(vm, os.path.join(new, 'state'))
                shutil.copy(vm.path('serial.log'),
                            os.path.join(new, 'serial'))
            os.rename(new, folder)
            _prune(top)
        os.utime(folder)
    return folder


def _prune(top):
    """Remove all but those that were used last."""
    def used(folder):
        try:
            return os.path.getmtime(folder)
        except FileNotFoundError:
            return 0

    folders = [os.path.join(top, name) for name in os.listdir(top)]
    for folder in sorted(folders, key=used, reverse=True)[KEEP:]:
        shutil.rmtree(folder, ignore_errors=True)
