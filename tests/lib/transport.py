# SPDX-License-Identifier: GPL-2.0-or-later
"""The transport as a peer sees it: include/backtrail/transport.h in Python.

For tests that are the agent, or the producer, and not always a good one.
Nothing here is shared with the agent in host-agent/.
"""

import array
import mmap
import os
import select
import socket
import struct
import threading
import time

import qemu

MSG = struct.Struct('<IHHIIQ')  # magic, version, type, reason, reserved, value
MSG_MAGIC = 0x4d525442
VERSION = 2
HELLO, READY, FLUSH, STOP, END = range(1, 6)

HEADER = struct.Struct('<QIIQQQQQ12I4Q64s2QII')
HEADER_SIZE = 320
HEADER_FIELDS = (
    'magic', 'version', 'header_size', 'total_size', 'vcpu_offset',
    'vcpu_stride', 'desc_offset', 'slab_offset', 'vcpus', 'slabs',
    'slab_size', 'records_per_slab', 'event_offset', 'events_per_slab',
    'record_size', 'event_size', 'producer', 'policy', 'privilege',
    'accepts', 'tick_ns', 'tsc_hz', 'start_monotonic', 'start_realtime',
    'capture', 'code_offset', 'code_page_offset', 'code_items', 'record_has')
SHM_MAGIC = 0x314d485354425f42
AGENT_SLEEPS = 256              # offset in the header

VCPU = struct.Struct('<QQQQI')  # head, records, lost, paused_ns, state
VCPU_SIZE = 128
FLUSHED = 40                    # offset in a vCPU's area
TAIL = 64                       # of the first one
RUNNING, WAITING, LOSING, ENDED = range(1, 5)

DESC = struct.Struct('<QQII')   # first_index, cr3, records, events
DESC_SIZE = 64
RECORD_SIZE = 24
EVENT = struct.Struct('<QHHIQQQ')
EVENT_CR3, EVENT_TIME, EVENT_GAP, EVENT_PAUSE, EVENT_RESUME, EVENT_END, \
    EVENT_TASK, EVENT_KERNEL, EVENT_WAKE = range(1, 10)
ACCEPTS_TASKS = 2
ACCEPTS_HOLD = 4
ACCEPTS_MEMORY = 8
ACCEPTS_KERNELS = 16
ACCEPTS_NESTED = 32
ACCEPTS_WAKES = 64
ACCEPTS_FLUSH = 128
GAP_OVERFLOW, GAP_OVERWRITTEN, GAP_AGENT_LOST, GAP_RESET, GAP_RESTORED, \
    GAP_DEBUGGER, GAP_CORRUPT, GAP_PRODUCER_LOST, GAP_GUEST_BTS, GAP_NESTED, \
    GAP_SMM, GAP_MODE, GAP_ADDRESS_SPACE, GAP_UNMAPPED, GAP_EPT_FAULT, \
    GAP_BUFFER_FULL, GAP_SPOILT, GAP_PT_OVERFLOW, GAP_PT_RING, \
    GAP_CODE_UNREADABLE, GAP_CODE_CHANGED, GAP_PT_LOST, \
    GAP_NOT_TRACED = range(1, 24)
PAUSE_OVERFLOW, PAUSE_VM_STOP = 1, 2
END_STOPPED, END_SHUTDOWN, END_MIGRATED, END_UNPLUGGED, END_PRODUCER_LOST = \
    range(1, 6)


def message(kind, reason=0, value=0, magic=MSG_MAGIC, version=VERSION):
    return MSG.pack(magic, version, kind, reason, 0, value)


def receive(sock, size, fds=0):
    """Receive size bytes, and file descriptors with them; b'' at the end."""
    data = b''
    got = array.array('i')
    while len(data) < size:
        part, ancillary, _, _ = sock.recvmsg(size - len(data),
                                             socket.CMSG_SPACE(4 * fds))
        for _, _, rights in ancillary:
            got.frombytes(rights[:len(rights) - len(rights) % got.itemsize])
        if not part:
            break
        data += part
    return data, list(got)


class Lingering:
    """A TCP socket that nobody can close before a minute has passed.

    with Lingering() as socket:
        socket.send(unix_socket, b'...')
    """

    def __enter__(self):
        with socket.create_server(('127.0.0.1', 0)) as listener:
            self.sock = socket.create_connection(listener.getsockname())
            self.peer, _ = listener.accept()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack('ii', 1, 60))
        self.sock.setblocking(False)
        try:
            while True:
                self.sock.send(bytes(1 << 16))
        except BlockingIOError:
            self.sock.setblocking(True)
        return self

    def send(self, sock, data, flags=0):
        """Send it along with data, and give it up in a thread."""
        # Not send_fds(), which ignores flags
        sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                               struct.pack('i', self.sock.fileno()))], flags)
        # If the receiver was faster this is the last one, and waits.
        thread = threading.Thread(target=self.sock.close, daemon=True)
        thread.start()
        return thread

    def __exit__(self, *exc):
        self.peer.close()
        self.sock.close()


class Agent:
    """An agent that gets as far as a test wants it to.

    with Agent(vm.qmp) as agent:
        agent.start(capture='s', overflow='drop')
        agent.drain()
    """

    def __init__(self, qmp):
        self.qmp = qmp
        self.sock, self.theirs = socket.socketpair(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.map = None
        self.fds = []
        self.slot = 0
        self.header = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.sock.close()
        self.theirs.close()
        if self.map:
            self.map.close()
            self.map = None
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def start(self, command='branch-trace-start', answer=message(READY),
              **arguments):
        """Give QEMU our socket, take its HELLO and answer.

        Raises qemu.QmpError if QEMU does not take the answer.
        """
        failure = []

        def say_hello():
            try:
                self.hello()
                if answer:
                    self.sock.sendall(answer)
            except (OSError, struct.error) as e:
                # Nothing comes if QEMU has refused the command.
                failure.append(e)

        self.qmp.getfd('agent', self.theirs.fileno())
        self.theirs.close()
        thread = threading.Thread(target=say_hello)
        thread.start()
        try:
            self.qmp.command(command,
                             {'agent': {'type': 'fd', 'str': 'agent'},
                              **arguments})
        except qemu.QmpError:
            # It has closed its end, unless it still waits for our answer.
            raise
        finally:
            if not self.map:
                self.sock.shutdown(socket.SHUT_RDWR)
            thread.join()
        if failure:
            raise failure[0]

    def attach(self, **arguments):
        self.start('branch-trace-attach', **arguments)

    def hello(self):
        """Take HELLO and map the shared memory."""
        data, fds = receive(self.sock, MSG.size, 3)
        magic, version, kind, slot, _, size = MSG.unpack(data)
        self.fds = fds
        if (magic, version, kind) != (MSG_MAGIC, VERSION, HELLO) or \
                len(fds) != 3:
            raise qemu.QemuError(f'this is no HELLO: {data.hex()}')
        self.take(fds, slot, size)

    def take(self, fds, slot, size):
        """Map the shared memory of a HELLO."""
        self.fds = fds
        self.slot = slot
        self.map = mmap.mmap(fds[0], size)
        self.header = dict(zip(HEADER_FIELDS,
                               HEADER.unpack_from(self.map, 0)))

    def send(self, kind, **fields):
        self.sock.sendall(message(kind, **fields))

    def wait_end(self):
        """The reason in END; None if the connection ends without one."""
        data, _ = receive(self.sock, MSG.size)
        if len(data) < MSG.size:
            return None
        return MSG.unpack(data)[3]

    def area(self, vcpu):
        return self.header['vcpu_offset'] + vcpu * self.header['vcpu_stride']

    def state(self, vcpu):
        """head, records, lost, paused_ns, state of a vCPU."""
        return VCPU.unpack_from(self.map, self.area(vcpu))

    def flushed(self, vcpu):
        """All that it did before this time of the monotonic clock, in ns, is in
        slabs that are published."""
        return struct.unpack_from('<Q', self.map, self.area(vcpu) + FLUSHED)[0]

    def tail(self, vcpu):
        return struct.unpack_from('<Q', self.map, self.tail_at(vcpu))[0]

    def tail_at(self, vcpu):
        return self.area(vcpu) + TAIL + 8 * self.slot

    def set_tail(self, vcpu, tail):
        struct.pack_into('<Q', self.map, self.tail_at(vcpu), tail)
        try:
            os.write(self.fds[2], bytes(8))
        except BlockingIOError:
            # There is enough to wake QEMU already.
            pass

    def code_at(self, vcpu):
        return self.area(vcpu) + self.header['code_offset']

    def drain_code(self):
        """Give all items of code back."""
        for vcpu in range(self.header['vcpus']):
            if self.header['code_items']:
                at = self.code_at(vcpu)
                head = self.map[at:at + 8]
                self.map[at + TAIL + 8 * self.slot:
                         at + TAIL + 8 * self.slot + 8] = head

    def slab(self, vcpu, number):
        """first_index, cr3, records as bytes, events as tuples."""
        slot = number % self.header['slabs']
        area = self.area(vcpu)
        first, cr3, n, n_events = DESC.unpack_from(
            self.map, area + self.header['desc_offset'] + slot * DESC_SIZE)
        slab = area + self.header['slab_offset'] + \
            slot * self.header['slab_size']
        events = [EVENT.unpack_from(self.map, slab +
                                    self.header['event_offset'] +
                                    i * EVENT.size) for i in range(n_events)]
        return first, cr3, self.map[slab:slab + n * RECORD_SIZE], events

    def drain_once(self):
        """Give all slabs back; return how many there were."""
        n = 0
        self.drain_code()
        for vcpu in range(self.header['vcpus']):
            head, tail = self.state(vcpu)[0], self.tail(vcpu)
            if head != tail:
                self.set_tail(vcpu, head)
                n += head - tail
        return n

    def drain(self, seconds):
        """Drain, and throw away, for some time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.drain_once():
                select.select([self.sock], [], [], 0.001)
