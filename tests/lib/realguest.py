# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest with one of Debian's kernels that does what it is told over its serial
port, is traced, and gives an account of itself."""

import contextlib
import os
import re
import struct
import tempfile
import time

import account
import backtrail
import guest
import kernels
import older
import qemu

MIB = 1 << 20
PAGE = 4096
HEAD = 16                       # of a page of an account
BOOT_S = 240
# Linux only spends time with some of its self tests and keys.  Its tracer sees
# each task from the beginning on; without trace_clock, the kernel takes another
# clock for it when the TSC is not stable, at the end of its initcalls, and drops
# what there is by then.
WORDS = ('console=ttyS0', 'panic=-1', 'no_timer_check', 'cryptomgr.notests=1',
         'initcall_blacklist=load_system_certificate_list,jent_mod_init',
         'trace_clock=global')
EVENTS = 'trace_event=task:task_newtask,task:task_rename'
# These boot without events only; /proc has the tasks that there are.
NO_EVENTS = r'7\.3\..*-rt-'
STEP_S = 120


class GuestError(Exception):
    """The guest did not do what it was told; the message says what."""


class RealGuest:
    """with RealGuest(kernels.table()['6.12-cloud'], folder) as g: …

    Its files are in a folder of the caller's.  memory is in MiB, and maximal
    (slots, MiB) for what can be plugged in; ram is [(id, MiB)] if it is not all
    one.  words go to its command line, more to QEMU's.
    """

    def __init__(self, kernel, folder, modules=(), words=(), memory=512, smp=2,
                 cpu=None, board='pc', more=(), files=None, ram=None,
                 reboots=False, maximal=None):
        self.kernel = kernel
        self.folder = folder
        self.more = list(more)
        self.accounts = 0
        self.commands = 0
        self.said = 0           # what of the serial port has been looked at
        self.ram = []
        arguments = []
        for name, size in ram or [('ram', memory)]:
            file = tempfile.NamedTemporaryFile(
                prefix='backtrail-', dir='/dev/shm'
                if os.path.isdir('/dev/shm') else None)
            self.ram.append(file)
            arguments += ['-object', f'memory-backend-file,id={name},'
                          f'size={size}M,mem-path={file.name},share=on']
        board += '' if ram else ',memory-backend=ram'
        self.release = None
        self.record = None      # the backtrail.Record of the last trace
        if kernel:
            initrd = os.path.join(folder, 'initrd')
            built = kernels.make_initrd(kernel, initrd, modules, files)
            self.vmlinuz = os.path.join(built, 'vmlinuz')
            self.release = kernels.release(self.vmlinuz)
            arguments += ['-kernel', self.vmlinuz, '-initrd', initrd, '-append',
                          ' '.join((*WORDS, *self._events(), 'quiet', *words))]
        size = f'{memory}M'
        if maximal:
            size += f',slots={maximal[0]},maxmem={maximal[1]}M'
        self.vm = qemu.Qemu([
            '-accel', 'tcg', '-smp', str(smp), '-machine', board, '-m', size,
            *(['-cpu', cpu] if cpu else []),
            *([] if reboots else ['-no-reboot']), '-device', 'branch-trace',
            *arguments, *self.more], qmp_sockets=2)

    def _events(self):
        return () if re.match(NO_EVENTS, self.release) else (EVENTS,)

    def __enter__(self):
        self.vm.start()
        if self.kernel:
            try:
                self.wait('^BT: ready', BOOT_S)
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *exc):
        self.vm.close()
        for file in self.ram:
            file.close()

    def wait(self, pattern, timeout=STEP_S):
        """The re.Match of what the guest writes next that matches"""
        deadline = time.monotonic() + timeout
        while True:
            # Firmware clears screens.
            text = re.sub('\x1b\\[[0-9;=?]*[A-Za-z]|\r', '',
                          self.vm.serial())
            end = text.rfind('\n') + 1
            match = re.compile(pattern, re.M).search(text[:end], self.said)
            if match:
                self.before = text[self.said:match.start()]
                self.said = match.end()
                return match
            if self.vm.process.poll() is not None:
                raise GuestError(f'QEMU ended: {self.vm.output()}\n'
                                 f'{self.vm.tail()}')
            if time.monotonic() > deadline:
                raise GuestError(f'no {pattern!r} within {timeout} s:\n'
                                 f'{self.vm.tail()}')
            time.sleep(0.02)

    def begin(self, line):
        """Have the guest execute a line of shell."""
        self.commands += 1
        self.vm.send_serial(line + '\n')
        return self.commands

    def end(self, number=None, timeout=STEP_S, check=True):
        """What it has printed when it is done"""
        match = self.wait(rf'^BT: done {number or self.commands} (\d+)$',
                          timeout)
        if check and match[1] != '0':
            raise GuestError(f'status {match[1]}: {self.before}')
        return self.before

    def run(self, line, timeout=STEP_S, check=True):
        return self.end(self.begin(line), timeout, check)

    def rebooted(self, timeout=BOOT_S):
        """Another kernel runs now."""
        self.wait('^BT: ready', timeout)
        self.commands = 0

    def tell(self, symbols=None):
        """The guest's account of itself, an account.Account; with the symbols
        of an earlier one, it is quick"""
        self.accounts += 1
        number = self.begin(f'account {self.accounts}'
                            f'{" tasks" if symbols else ""}')
        size = int(self.wait(rf'^BT: account {self.accounts} (\d+)$')[1])
        start = time.monotonic()
        text = self._pages(size)
        self.vm.send_serial('\n')
        self.end(number)
        with open(os.path.join(self.folder, f'account-{self.accounts}'),
                  'wb') as f:
            f.write(text)
        return account.Account(text, start, symbols)

    def _pages(self, size):
        wanted = b'BT: page' + struct.pack('<I', self.accounts)
        pages = {}
        for file in self.ram:
            end = 0
            while True:
                try:
                    start = os.lseek(file.fileno(), end, os.SEEK_DATA)
                except OSError:         # nothing but holes
                    break
                end = min(start + MIB, os.lseek(file.fileno(), start,
                                                os.SEEK_HOLE))
                data = os.pread(file.fileno(), end - start, start)
                at = data.find(wanted)
                while at >= 0:
                    if at % PAGE == 0:
                        number, = struct.unpack_from('<I', data, at + 12)
                        pages[number] = data[at + HEAD:at + PAGE]
                    at = data.find(wanted, at + 1)
        text = b''.join(page for _, page in sorted(pages.items()))[:size]
        if len(text) != size:
            raise GuestError(f'{len(text)} bytes of an account of {size}')
        return text

    def _in_new_qemu(self, *more):
        """Its serial port says what it has said before, and continues."""
        serial = self.vm.serial()
        old = self.vm
        self.vm = qemu.Qemu([*old.given, *more], qmp_sockets=2)
        with open(self.vm.path('serial.log'), 'w', encoding='utf-8') as f:
            f.write(serial)
        old.close()
        self.vm.append_serial()
        self.vm.start()

    def restart(self):
        """Power on again."""
        self._in_new_qemu()
        self.rebooted()

    def move(self, state):
        """Go on from a file with its state, in a QEMU that is new."""
        self._in_new_qemu('-incoming', f'file:{state}')
        deadline = time.monotonic() + STEP_S
        while self.vm.qmp.command('query-status')['status'] == 'inmigrate':
            if time.monotonic() > deadline:
                raise GuestError(f'it is not restored: {self.vm.output()}')
            time.sleep(0.05)
        self.vm.qmp.command('cont')

    def recorded(self, path, qmp=None, options=()):
        """A backtrail.Record of it, which has not begun"""
        self.record = backtrail.Record(qmp or self.vm.qmp_paths[1], path,
                                       path + '.log', '--force', *options)
        return self.record

    @contextlib.contextmanager
    def traced(self, name, named=True, less=None, options=()):
        """While the guest is traced; yields the trace's path.  The producer
        says less than it can: {'tasks': bool}, see older.Older.  options are
        those of record."""
        path = os.path.join(self.folder, name)
        with contextlib.ExitStack() as stack:
            qmp = None
            if less is not None:
                qmp = stack.enter_context(
                    older.Older(self.vm.qmp_paths[1], **less)).path
            record = stack.enter_context(self.recorded(path, qmp, options))
            if named:
                time.sleep(guest.NAMED_S)
            yield path
            status = record.stop()
            if status:
                raise GuestError(f'record: status {status}: {record.output()}')
