# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a QEMU for a test: start, talk QMP, read the serial port, clean up."""

import array
import contextlib
import ctypes
import functools
import json
import mmap
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))

# Not from a distribution's package: what the tests run is built here.
FIRMWARE = ('/usr/share/seabios', '/usr/share/qemu')

SKIPPED = 77                    # what meson takes for a skipped test
PR_SET_PDEATHSIG = 1


class QemuError(Exception):
    """QEMU did not do what a test needs; the message says what."""


class QmpError(Exception):
    """A QMP command failed.  cls and desc are as QEMU gave them."""

    def __init__(self, command, error):
        super().__init__(f"{command}: {error['desc']}")
        self.cls = error['class']
        self.desc = error['desc']


def skip(why):
    """End the test as skipped."""
    print(f'skipped: {why}', flush=True)
    sys.exit(SKIPPED)


def mounts_shared():
    """Would others see what is mounted here?"""
    with open('/proc/self/mountinfo', encoding='utf-8') as f:
        return ' shared:' in f.read()


def unshare_mounts(*options):
    """What to put in front of a command to give it mounts of its own; None if
    this is not permitted.  options are of unshare(1)."""
    for propagation in 'private', 'unchanged':
        command = ['unshare', '-m', *options, '--propagation', propagation]
        # In a chroot, / need not be a mount that can be made private.
        if propagation == 'unchanged' and mounts_shared():
            return None
        if subprocess.run([*command, 'true'], check=False,
                          capture_output=True).returncode == 0:
            return command
    return None


def cache():
    """The folder that scripts/lib.sh calls CACHE"""
    home = os.environ.get('XDG_CACHE_HOME') or \
        os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.abspath(os.environ.get('BACKTRAIL_CACHE') or
                           os.path.join(home, 'backtrail'))


@functools.cache
def built(*args):
    """The folder that scripts/build prints for a tree."""
    build = os.path.join(TOP, 'scripts', 'build')
    return subprocess.run([build, '--print', *args], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


def patched():
    """Path of the patched QEMU: $BACKTRAIL_QEMU or the one of this tree."""
    path = os.environ.get('BACKTRAIL_QEMU')
    if path is None:
        path = os.path.join(built('qemu'), 'qemu-system-x86_64')
    if not os.access(path, os.X_OK):
        raise QemuError(f'no QEMU at {path}: set BACKTRAIL_QEMU to the '
                        'program, or unset it to use scripts/build')
    return path


def original():
    """Path of a QEMU without patches: $BACKTRAIL_QEMU_ORIGINAL or built."""
    path = os.environ.get('BACKTRAIL_QEMU_ORIGINAL')
    if path is None:
        path = os.path.join(built('--original', 'qemu'), 'qemu-system-x86_64')
    if not os.access(path, os.X_OK):
        raise QemuError(f'no QEMU at {path}: set BACKTRAIL_QEMU_ORIGINAL to '
                        'the program, or unset it to use scripts/build')
    return path


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(args, **kwargs):
    """Start a process that does not outlive this one."""
    return subprocess.Popen(args, preexec_fn=_die_with_parent, **kwargs)


def descriptors(process):
    """How many descriptors of files a process has open"""
    return len(os.listdir(f'/proc/{process.pid}/fd'))


def open_files(pid):
    """What a process has open: (what stat() says, what the link says)"""
    for fd in os.listdir(f'/proc/{pid}/fd'):
        path = f'/proc/{pid}/fd/{fd}'
        # It opens and closes others meanwhile.
        with contextlib.suppress(FileNotFoundError):
            yield os.stat(path), os.readlink(path)


def resident(process):
    """Bytes of memory that a process has"""
    with open(f'/proc/{process.pid}/statm', encoding='ascii') as f:
        return int(f.read().split()[1]) * mmap.PAGESIZE


class Qmp:
    """A QMP connection over a unix socket."""

    def __init__(self, path, timeout=30):
        self.timeout = timeout
        self.events = []
        self._buffer = b''
        self._sock = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._sock.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise QemuError(f'no QMP at {path}') from None
                time.sleep(0.01)
        self.greeting = self._read(deadline)
        self.command('qmp_capabilities')

    def close(self):
        self._sock.close()

    def _read(self, deadline):
        while b'\n' not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError('QMP')
            self._sock.settimeout(left)
            data = self._sock.recv(1 << 16)
            if not data:
                raise ConnectionResetError('QMP: closed by QEMU')
            self._buffer += data
        line, self._buffer = self._buffer.split(b'\n', 1)
        return json.loads(line)

    def command(self, command, arguments=None, fds=(), timeout=None):
        """Run a command and return what it returns.

        fds go along as SCM_RIGHTS.  Raises QmpError if it fails.
        """
        message = {'execute': command}
        if arguments:
            message['arguments'] = arguments
        data = json.dumps(message).encode() + b'\n'
        self._sock.settimeout(timeout or self.timeout)
        if fds:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                       array.array('i', fds))]
            sent = self._sock.sendmsg([data], rights)
            data = data[sent:]
        self._sock.sendall(data)
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            try:
                reply = self._read(deadline)
            except TimeoutError:
                raise TimeoutError(f'{command}: no answer') from None
            if 'event' in reply:
                self.events.append(reply)
            elif 'error' in reply:
                raise QmpError(command, reply['error'])
            elif 'return' in reply:
                return reply['return']

    def getfd(self, name, fd):
        """Pass a file descriptor, to be named in later commands."""
        self.command('getfd', {'fdname': name}, fds=[fd])

    def device(self, driver):
        """The path of a device that has no id, for qom-get and qom-set."""
        folder = '/machine/peripheral-anon'
        return next(f'{folder}/{p["name"]}'
                    for p in self.command('qom-list', {'path': folder})
                    if p['type'] == f'child<{driver}>')

    def wait_migrated(self, timeout=60):
        """Return the status of a migration that has ended.

        QEMU reports the end of one before the guest may be continued.
        """
        deadline = time.monotonic() + timeout
        while True:
            status = self.command('query-migrate').get('status')
            if (status in ('completed', 'failed', 'cancelled') and
                    self.command('query-status')['status'] !=
                    'finish-migrate'):
                return status
            if time.monotonic() > deadline:
                raise TimeoutError(f'the migration is {status}')
            time.sleep(0.001)

    def hmp(self, line):
        """Run a command of the human monitor and return what it prints."""
        return self.command('human-monitor-command', {'command-line': line})

    def wait_event(self, name, timeout=None, match=None):
        """Remove and return the first event of this name.

        match, if there is one, is called with its data and says whether it
        is the one that is meant.
        """
        deadline = time.monotonic() + (timeout or self.timeout)
        seen = 0
        while True:
            while seen < len(self.events):
                event = self.events[seen]
                if event['event'] == name and \
                        (match is None or match(event.get('data', {}))):
                    return self.events.pop(seen)
                seen += 1
            try:
                reply = self._read(deadline)
            except TimeoutError:
                raise TimeoutError(f'no event {name}') from None
            if 'event' in reply:
                self.events.append(reply)


def cpu_seconds(pid):
    """What a process has used, in all modes"""
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


class Qemu:
    """A QEMU in a temporary folder of its own.

    with Qemu(['-kernel', k], binary=qemu.patched()) as vm:
        vm.wait_serial('BT: ready')
        vm.qmp.command('stop')

    It is gone, with all its files, at the end of the with block.
    """

    def __init__(self, args, binary=None, qmp_sockets=1, serial=True,
                 env=None, fds=()):
        self.binary = binary or patched()
        self.given = list(args)
        self.dir = tempfile.mkdtemp(prefix='backtrail-')
        self.args = [self.binary, '-nodefaults', '-display', 'none']
        bundle = os.path.join(os.path.dirname(self.binary), 'qemu-bundle',
                              'usr', 'local', 'share', 'qemu', 'bios.bin')
        if not os.path.exists(bundle):
            for folder in FIRMWARE:
                self.args += ['-L', folder]
        if serial:
            self.args += ['-chardev', f'socket,id=serial0,server=on,wait=off,'
                          f'path={self.path("serial")},'
                          f'logfile={self.path("serial.log")}',
                          '-serial', 'chardev:serial0']
        self.qmp_paths = []
        for i in range(qmp_sockets):
            self.qmp_paths.append(self.path(f'qmp{i}'))
            self.args += ['-qmp',
                          f'unix:{self.qmp_paths[i]},server=on,wait=off']
        self.args += args
        self.env = dict(os.environ, **(env or {}))
        self.fds = fds          # that it inherits
        self.process = None
        self.qmp = None

    def path(self, name):
        """Path of a file in the temporary folder."""
        return os.path.join(self.dir, name)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.close()

    def start(self):
        with open(self.path('output'), 'wb') as output:
            self.process = spawn(self.args, stdin=subprocess.DEVNULL,
                                 stdout=output, stderr=output, env=self.env,
                                 pass_fds=self.fds)
        if self.qmp_paths:
            try:
                self.qmp = Qmp(self.qmp_paths[0])
            except (QemuError, OSError) as e:
                message = f'{e}\n{self.output()}'
                self.close()
                raise QemuError(f'QEMU did not start: {message}') from None

    def append_serial(self):
        """Before it is started: what the guest writes is added to what is in
        serial.log already."""
        at = self.args.index('-chardev') + 1
        self.args[at] += ',logappend=on'

    def output(self):
        """What QEMU has written to stdout and stderr."""
        with open(self.path('output'), encoding='utf-8',
                  errors='replace') as f:
            return f.read()

    def serial(self):
        """What the guest has written to its serial port."""
        try:
            with open(self.path('serial.log'), encoding='utf-8',
                      errors='replace') as f:
                return f.read()
        except FileNotFoundError:
            return ''

    def send_serial(self, text):
        """Type something on the guest's serial port."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path('serial'))
            s.sendall(text.encode())
            # The chardev drops what it has not read when we hang up.
            s.shutdown(socket.SHUT_WR)
            s.settimeout(5)
            try:
                while s.recv(4096):
                    pass
            except TimeoutError:
                pass

    def wait_serial(self, pattern, timeout=60):
        """Wait until the guest has written this; return the re.Match.

        A line that has not ended yet does not count: a number can go on.
        """
        deadline = time.monotonic() + timeout
        while True:
            dead = self.process.poll() is not None
            text = self.serial()
            match = re.search(pattern, text[:text.rfind('\n') + 1],
                              re.MULTILINE)
            if match:
                return match
            if dead:
                raise QemuError(f'QEMU ended with {self.process.returncode} '
                                f'before {pattern!r}: '
                                f'{self.output()}\n{self.tail()}')
            if time.monotonic() > deadline:
                raise QemuError(f'no {pattern!r} within {timeout} s; the '
                                f'serial port says:\n{self.tail()}')
            time.sleep(0.02)

    def tail(self, lines=20):
        return '\n'.join(self.serial().splitlines()[-lines:])

    def wait(self, timeout=60):
        """Wait for QEMU to end by itself; return its exit status."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise QemuError(f'QEMU still runs after {timeout} s; the serial '
                            f'port says:\n{self.tail()}') from None

    @contextlib.contextmanager
    def standing(self):
        """A context in which the guest does not run, and leaves its CPU time to
        who reads its trace."""
        self.qmp.command('stop')
        yield
        self.qmp.command('cont')

    def quit(self, timeout=30):
        """Ask QEMU to end and wait for it."""
        try:
            self.qmp.command('quit')
        except (ConnectionError, BrokenPipeError):
            pass
        return self.wait(timeout)

    def close(self):
        """End QEMU, whatever it does, and remove its files."""
        if self.qmp:
            self.qmp.close()
            self.qmp = None
        if self.process:
            if self.process.poll() is None:
                self.process.terminate()
                try:
                    self.process.wait(5)
                except subprocess.TimeoutExpired:
                    # Also gets one that is stopped by a signal.
                    self.process.kill()
                    self.process.wait()
            self.process = None
        shutil.rmtree(self.dir, ignore_errors=True)
