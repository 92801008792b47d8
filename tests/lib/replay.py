# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's record/replay for a test: record a guest, replay it, go to places.

A place is an instruction count.
"""

import collections
import hashlib
import mmap
import os
import re
import subprocess
import time

import qemu

# Time follows the count of instructions only, and passes so fast that firmware
# waits for few of them.
ICOUNT = 'shift=5,sleep=off'

# The last instruction may be the one that powers the guest off.
LEFT_OUT = 1
# A guest that boots is here for some time.
EARLY = 50000000


def args(mode, log):
    """What QEMU needs to record into a log, or to replay it."""
    return ['-accel', 'tcg', '-rtc', 'base=utc', '-no-shutdown',
            '-icount', f'{ICOUNT},rr={mode},rrfile={log}']


def image(path, size='4G'):
    """An empty image, which can hold snapshots"""
    tool = os.path.join(os.path.dirname(qemu.patched()), 'qemu-img')
    subprocess.run([tool, 'create', '-q', '-f', 'qcow2', path, size],
                   check=True)


Recording = collections.namedtuple('Recording',
                                   'stopped state booted end serial')


def record(arguments, log, timeout=120):
    """Record a guest until it powers itself off.

    Return a place at which it was stopped for a moment and what that was like,
    a place at which it has booted, one shortly before the end, and what it
    wrote to its serial port.
    """
    with Guest([*args('record', log), *arguments]) as vm:
        state = None
        while not state or interrupted(state):
            time.sleep(0.01)
            if vm.place() < EARLY:
                continue
            vm.qmp.command('stop')
            stopped, state = vm.place(), vm.state()
            vm.qmp.command('cont')
        vm.wait_serial('^BT: ready', timeout)
        booted = vm.place()
        vm.wait_serial('^BT: end', timeout)
        vm.qmp.wait_event('SHUTDOWN', timeout)
        end = vm.place() - LEFT_OUT
        serial = vm.serial()
        vm.quit()
    return Recording(stopped, state, booted, end, serial)


def interrupted(state):
    """Is there an interrupt?  It executes no instruction: a replay that stops
    at its place is before it or after it."""
    return re.search(r'I[SR]R\t (?!\(none\))', state['said'])


class Guest(qemu.Qemu):
    """A QEMU that records or replays"""

    def __init__(self, arguments, qmp_sockets=1):
        super().__init__(arguments, qmp_sockets=qmp_sockets)
        self.memory = self.path('memory')
        size = arguments[arguments.index('-m') + 1]
        self.args += ['-object', 'memory-backend-file,id=memory,share=on,'
                      f'size={size}M,mem-path={self.memory}',
                      '-machine', 'memory-backend=memory']

    def place(self):
        return self.qmp.command('query-replay')['icount']

    def state(self):
        """What the place is like: registers, interrupt controllers, memory.

        A halted vCPU that an interrupt waits for may be awake already: it
        is after its HLT in either case.
        """
        said = '\n'.join(self.qmp.hmp(f'info {what}')
                         for what in ('registers -a', 'lapic', 'pic'))
        said = re.sub(r' HLT=\d', '', said)
        with open(self.memory, 'rb') as f, \
                mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            return {'said': said,
                    'memory': hashlib.sha256(memory).hexdigest()}


class Replay(Guest):
    """A QEMU that replays a log; it is before the first instruction."""

    def __init__(self, arguments, log, snapshots=None, qmp_sockets=1):
        given = [*args('replay', log), '-S', *arguments]
        if snapshots:
            given += ['-drive', f'file={snapshots},if=none,id=snapshots']
        super().__init__(given, qmp_sockets=qmp_sockets)

    def _stopped(self, place, timeout):
        """Wait until it has come to a place, at which it was to stop."""
        self.qmp.wait_event('STOP', timeout)
        if self.place() != place:
            raise qemu.QemuError(f'stopped at {self.place()}, not at {place}')

    def run_to(self, place, timeout=60):
        """Go forward, without a snapshot."""
        self.qmp.events.clear()
        self.qmp.command('replay-break', {'icount': place})
        self.qmp.command('cont')
        self._stopped(place, timeout)

    def seek(self, place, timeout=60):
        """Go anywhere, from the last snapshot before it."""
        self.qmp.events.clear()
        self.qmp.command('replay-seek', {'icount': place}, timeout=timeout)
        self._stopped(place, timeout)

    def save(self, name):
        """Make a snapshot of the place."""
        said = self.qmp.hmp(f'savevm {name}')
        if said:
            raise qemu.QemuError(said)
