# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that says anything of its processes, while it is traced.

A real guest runs; in place of its program, this part is at the other end of the
port for names.  The agent asks it, and it says what is right, wrong, at a
limit, without end, or nothing.  The trace is sound, and what readers print of
it is clean.  In other rounds it is asked for files.
"""

import contextlib
import json
import os
import socket
import struct
import subprocess
import threading
import time

import booted
import campaign
import guest
import guestnames
import hostile
import qemu
import traces
from mutate import EDGES, NAMES

WORDS = 'bt.workload=beat', 'bt.end=stay', 'no_timer_check'
READY = 60                      # seconds until an agent traces
MEMORY = 1500                   # MiB of an agent with sanitizers
READ = (('report', '--sort=comm,pid,tid,dso,sym', '--json'), ('info', '--json'),
        ('script', '--names', '--index=0..2000'), ('calls', '--json'),
        ('report', '--missing', '--json'), ('flamegraph',))
PIDS = (0, 1, 7, 11, 12, 100, 1000, 65536, (1 << 32) - 1)


class Guest:
    """The other end of a port: a unix socket that is connected to"""

    def __init__(self, path, r):
        # The thread has numbers of its own: those of the round stay the same.
        self.random = type(r)(r.getrandbits(64))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.over = False
        self.sent = self.asked = 0
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()

    def close(self):
        self.over = True
        self.listener.close()
        self.thread.join(10)

    def go_on(self):
        self.listener.settimeout(0.2)
        while not self.over:
            try:
                sock, _ = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            with sock, contextlib.suppress(OSError, struct.error):
                sock.settimeout(0.2)
                self.converse(sock)

    def converse(self, sock):
        r = self.random
        buffer, nonce, until = b'', None, 0
        while not self.over:
            try:
                data = sock.recv(65536)
                if not data:
                    return
                buffer += data
            except TimeoutError:
                pass
            while len(buffer) >= 8:
                size, kind, _ = struct.unpack_from('<IHH', buffer)
                if len(buffer) < 8 + size:
                    break
                self.asked += 1
                answer = self.answer(kind, buffer[8:8 + size])
                if kind == guestnames.OPEN and size >= 16:
                    nonce = struct.unpack_from('<Q', buffer, 16)[0]
                buffer = buffer[8 + size:]
                if answer:
                    self.send(sock, answer)
            if nonce is not None:
                for _ in range(r.choice((1, 1, 20, 300))):
                    self.send(sock, self.word())
                if r.random() < 0.02:
                    return
                time.sleep(r.choice((0, 0, 0.001, 0.05)))

    def send(self, sock, data):
        deadline = time.monotonic() + 5
        while data and not self.over and time.monotonic() < deadline:
            try:
                n = sock.send(data)
            except TimeoutError:
                continue
            self.sent += n
            data = data[n:]

    def answer(self, kind, data):
        r = self.random
        if kind == guestnames.OPEN:
            nonce = struct.unpack_from('<Q', data, 8)[0] if len(data) >= 16 \
                else 0
            release = self.text(64)
            if r.random() < 0.05:
                nonce ^= 1
            return self.message(1, struct.pack(
                '<QQIIII', guestnames.MAGIC, nonce,
                r.choice((1, 1, 1, 1, 1, 1, 0, 2)), r.choice((7, 3, 1, 0, 255)),
                r.choice((2, 2, 2, 1, 1024, 0, 1 << 31)), len(release)) +
                release, r.random() < 0.02)
        if kind == guestnames.FLUSH and r.random() < 0.8:
            return self.message(14, struct.pack('<Q', self.time()))
        if kind == guestnames.FILE_WANTED:
            return self.content(data)
        return b''

    def content(self, data):
        """A file, or pieces of one, or of none"""
        r = self.random
        total = r.choice((0, 1, 100, 5000, 1 << 20, 1 << 28, (1 << 28) + 1,
                          r.choice(EDGES)))
        out, at = b'', 0
        for _ in range(r.choice((1, 2, 30))):
            text = r.choice((b'', b'\x7fELF' + r.randbytes(60),
                             r.randbytes(r.randrange(4000)), b'\0' * 65000))
            out += self.message(15, struct.pack(
                '<QQII', r.choice((at, at, at, 0, r.choice(EDGES))), total,
                r.choice((0, 0, 0, 0, 2, 13, r.getrandbits(32))),
                len(text)) + text)
            at += len(text)
        return out

    def text(self, most):
        r = self.random
        return r.choice((b'', b'sh', r.choice(NAMES), r.choice(hostile.NAMES),
                         r.randbytes(r.randrange(most + 1)), b'a' * most,
                         b'x' * (most + 1) if r.random() < 0.02 else b''))

    def time(self):
        r = self.random
        return r.choice((r.randrange(1 << 36), r.randrange(1 << 36), 0, 1,
                         r.choice(EDGES)))

    def message(self, kind, data, wrong=False):
        size = self.random.choice((0, len(data) + 1, 65537, (1 << 32) - 1)) \
            if wrong else len(data)
        return struct.pack('<IHH', size, kind, 0) + data

    def word(self):
        """A message; most are as they should be."""
        r = self.random
        kind = r.choice((2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 7, 8, 9, 9, 10, 11, 12,
                         13, 14, 15))
        data = getattr(self, f'word_{guestnames.TYPES[kind][0]}')()
        broken = r.randrange(2000)
        if broken == 0:
            kind = r.choice((0, 16, 65535))
        elif broken == 1:
            data = data[:r.randrange(len(data) + 1)]
        elif broken == 2:
            return r.randbytes(r.randrange(1, 100))
        return self.message(kind, data, broken == 3)

    def pid(self):
        return self.random.choice((*PIDS, self.random.getrandbits(16)))

    def word_listing(self):
        return struct.pack('<QII', self.time(), self.random.randrange(2), 0)

    def word_process(self):
        comm, exe, command = self.text(64), self.text(4096), self.text(4096)
        return struct.pack(
            '<QQQIIIIII', self.time(), self.time(), self.time(), self.pid(),
            self.pid(), self.random.choice((0, 0, 1)), len(comm), len(exe),
            len(command)) + comm + exe + command

    def word_thread(self):
        comm = self.text(64)
        return struct.pack('<QQIIII', self.time(), self.time(), self.pid(),
                           self.pid(), len(comm), 0) + comm

    def word_mapping(self):
        r = self.random
        path, build_id = self.text(4096), r.randbytes(r.choice((0, 20, 32)))
        start = r.choice((0x400000, 0x7f0000000000, r.choice(EDGES)))
        end = start + r.choice((4096, 0, 1 << 30, -1)) & (1 << 64) - 1
        return struct.pack('<QQQQIIII', self.time(), start, end,
                           r.choice((0, 4096, r.choice(EDGES))), self.pid(),
                           r.choice((21, 21, 5, 63)), len(path),
                           len(build_id)) + path + build_id

    def word_fork(self):
        return struct.pack('<QIIII', self.time(), self.pid(), self.pid(),
                           self.pid(), self.pid())

    def word_exit(self):
        return struct.pack('<QII', self.time(), self.pid(), self.pid())

    def word_name(self):
        comm = self.text(64)
        return struct.pack('<QIIII', self.time(), self.pid(), self.pid(),
                           self.random.randrange(2), len(comm)) + comm

    def word_switches(self):
        r = self.random
        n = r.choice((0, 1, 20, 4000))
        begin, step = self.time(), r.choice((0, 1, 1000, 100000))
        pids = r.choices(PIDS, k=n)
        return struct.pack('<II', r.choice((0, 1, 0, 1, 1023, 1 << 31)), n) + \
            b''.join(struct.pack('<QII', begin + i * step & (1 << 64) - 1,
                                 pid, pid) for i, pid in enumerate(pids))

    def word_up_to(self):
        return struct.pack('<Q', self.time())

    def word_lost(self):
        return struct.pack('<QQII', self.time(), self.time(),
                           self.random.randrange(4), 0)

    def word_symbols(self):
        r = self.random
        text = b''.join(b'%x %s %s\n' % (
            r.choice((0xffffffff81000000 + 16 * i, r.choice(EDGES))),
            r.choice((b't', b'T', b'd')), self.text(40).replace(b'\n', b'_'))
            for i in range(r.choice((0, 1, 300))))[:65000]
        return struct.pack('<II', r.randrange(4), len(text)) + text

    def word_functions(self):
        r = self.random
        text = b''.join(b'%x %x %s\n' % (
            r.choice((0x7f0000000000 + 64 * i, r.choice(EDGES))),
            r.choice((0, 16, 64, r.choice(EDGES))),
            self.text(40).replace(b'\n', b'_'))
            for i in range(r.choice((0, 1, 500))))[:65000]
        return struct.pack('<QIIII', self.time(), self.pid(), r.randrange(4),
                           len(text), 0) + text

    word_flushed = word_up_to

    def word_content(self):
        return struct.pack('<QQII', 0, 0, 0, 0)


class Part(traces.Part):
    name = 'names'
    parallel = False
    samples = ('mapped:abcdef0123456789',)

    def begin(self):
        super().begin()
        try:
            guest.folder()
            self.vm = None
            self.start_guest()
        except (qemu.QemuError, OSError) as e:
            self.end()
            raise campaign.Skip(str(e)) from None

    def start_guest(self):
        self.vm = qemu.Qemu(['-accel', 'tcg', '-smp', '2', '-device',
                             'branch-trace', *guest.args(*WORDS)],
                            qmp_sockets=2)
        booted.start(self.vm, '^BT: beat')

    def end(self):
        super().end()
        if getattr(self, 'vm', None):
            self.vm.close()

    def recover(self):
        self.vm.close()
        self.start_guest()

    def round(self):
        for name in self.files():
            os.unlink(name)
        self.port = os.path.join(self.folder, 'port')
        says = Guest(self.port, self.random)
        try:
            if self.random.random() < 0.7:
                self.trace(says)
            else:
                self.ask_files()
            self.counts['kB said'] += says.sent >> 10
            self.counts['questions'] += says.asked
        finally:
            says.close()
            os.unlink(self.port)

    def files(self):
        return [path for path in super().files() if not
                os.path.basename(path).startswith('port')]

    def ask_files(self):
        """A reader asks the guest for a file."""
        with open(self.path, 'wb') as f:
            f.write(self.seeds[0])
        self.command('report', '--sort=sym', '--guest-files', self.port,
                     self.path)

    def trace(self, says):
        r = self.random
        log = os.path.join(self.folder, 'agent.log')
        with open(log, 'wb') as f:
            agent = qemu.spawn(
                [self.backtrail, 'record', '--qmp', self.vm.qmp_paths[1], '-o',
                 self.path, '--names=' + r.choice(('auto', 'off', 'off')),
                 '--guest-names', self.port], stdout=f, stderr=f,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **traces.SANITIZED})
        try:
            self.wait(lambda: agent.poll() is not None or
                      self.vm.qmp.command('query-branch-trace')['state'] ==
                      'active', 'the agent traces')
            time.sleep(r.choice((0.3, 1, 2)))
            if agent.poll() is not None:
                with open(log, 'rb') as f:
                    raise campaign.Failure(f'the agent has ended: '
                                           f'{f.read()[-3000:]!r}')
            with open(f'/proc/{agent.pid}/status', encoding='ascii') as f:
                mib = [int(line.split()[1]) >> 10 for line in f
                       if line.startswith('VmHWM')]
            agent.send_signal(2)
            try:
                status = agent.wait(READY)
            except subprocess.TimeoutExpired:
                raise campaign.Failure('the agent does not end') from None
        finally:
            agent.kill()
            agent.wait()
        self.counts['agents'] += 1
        with open(log, 'rb') as f:
            said = f.read()
        if status or b'runtime error' in said or b'Sanitizer' in said:
            raise campaign.Failure(f'the agent: status {status}: '
                                   f'{said[-3000:]!r}')
        if mib and mib[0] > MEMORY:
            raise campaign.Failure(f'the agent had {mib[0]} MiB')
        self.printable(('record',), said)
        self.check_trace()

    def wait(self, condition, what):
        deadline = time.monotonic() + READY
        while not condition():
            if time.monotonic() > deadline:
                raise campaign.Failure(f'not within {READY} s: {what}')
            time.sleep(0.02)

    def check_trace(self):
        _, printed = self.command('verify', '--json', self.path, codes=(0,))
        self.counts['records'] += json.loads(printed)['records']
        for command in self.random.sample(READ, 2):
            self.command(*command, self.path, codes=(0, 3))
