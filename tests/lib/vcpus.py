# SPDX-License-Identifier: GPL-2.0-or-later
"""vCPUs that the host does not run for as long as a test wants."""

import contextlib
import ctypes
import os
import signal
import threading
import time

import qemu

# In seconds: QEMU answers sooner, unless its lock is held.
ANSWER = 5
TIMEOUT = 60

libc = ctypes.CDLL(None, use_errno=True)


def env(path):
    """What a qemu.Qemu needs in its environment, for held() with this path"""
    build = os.environ.get('BACKTRAIL_BUILD', os.path.join(qemu.TOP, 'build'))
    return {'BACKTRAIL_HOLD_THREAD': path,
            'LD_PRELOAD': os.path.join(build, 'tests', 'lib',
                                       'hold-thread.so')}


def _hold(vm, path, threads):
    """Returns whether QEMU answers: none of the threads has its lock."""
    asker = threading.Thread(target=vm.qmp.command, args=('query-status',))
    deadline = time.monotonic() + TIMEOUT
    with open(path, 'wb'):
        pass
    for thread in threads:
        if libc.tgkill(vm.process.pid, thread, signal.SIGFPE):
            raise OSError(ctypes.get_errno(), 'tgkill')
    while os.stat(path).st_size < len(threads):
        if time.monotonic() > deadline:
            raise TimeoutError('the vCPUs still run')
        time.sleep(0.001)
    asker.start()
    asker.join(ANSWER)
    if not asker.is_alive():
        return True
    os.unlink(path)
    asker.join()
    return False


@contextlib.contextmanager
def held(vm, path, *vcpus):
    """The threads of these vCPUs of a qemu.Qemu, which has one for each, do not
    run meanwhile; QEMU answers.  path must be that of env()."""
    threads = [c['thread-id'] for c in vm.qmp.command('query-cpus-fast')
               if c['cpu-index'] in vcpus]
    try:
        while not _hold(vm, path, threads):
            pass
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
