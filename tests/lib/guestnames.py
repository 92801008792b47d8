# SPDX-License-Identifier: GPL-2.0-or-later
"""Talk to backtrail-guest-names, as an agent does.

Made of docs/guest-names.md: it shares no code with either side.
"""

import os
import select
import socket
import struct
import time

import backtrail

MAGIC = 0x0a747367727462b7
VERSION = 1
OPEN, LIST, FLUSH, CLOSE, FILE_WANTED = 1, 2, 3, 4, 5
WANT_SWITCHES, WANT_SYMBOLS, WANT_FUNCTIONS, WANT_FILES = 1, 2, 4, 8
HAS_EVENTS, HAS_SWITCHES, HAS_PTI = 1, 2, 4
READ, WRITE, EXEC, SHARED, FILE, DELETED = (1 << i for i in range(6))
KERNEL = 1
EXECUTES = 1
MESSAGE_MAX = 64 << 10

# Type: name, struct, its fields, and those that are sizes of texts
TYPES = {
    1: ('hello', '<QQIIII', 'magic nonce version flags cpus release'),
    2: ('listing', '<QII', 'time end reserved'),
    3: ('process', '<QQQIIIIII',
        'time begin start_time pid parent flags comm exe command'),
    4: ('thread', '<QQIIII', 'time start_time pid tid comm reserved'),
    5: ('mapping', '<QQQQIIII',
        'time start end offset pid flags path build_id'),
    6: ('fork', '<QIIII', 'time pid tid parent parent_tid'),
    7: ('exit', '<QII', 'time pid tid'),
    8: ('name', '<QIIII', 'time pid tid flags comm'),
    9: ('switches', '<II', 'cpu n'),
    10: ('up_to', '<Q', 'time'),
    11: ('lost', '<QQII', 'time n what reserved'),
    12: ('symbols', '<II', 'flags text'),
    13: ('functions', '<QIIII', 'time pid flags text reserved'),
    14: ('flushed', '<Q', 'time'),
    15: ('content', '<QQII', 'at total error text'),
}
TEXTS = ('release', 'comm', 'exe', 'command', 'path', 'build_id', 'text')


def port(path):
    """QEMU's arguments for a port of a guest, with a unix socket at its end"""
    return _port(f'socket,id=names,path={path},server=on,wait=off')


def port_to_nobody():
    """The same guest, with nothing at the end of its port"""
    return _port('null,id=names')


def _port(end):
    return ['-device', 'virtio-serial', '-chardev', end,
            '-device', 'virtserialport,chardev=names,'
            'name=org.backtrail.guest.0']


def port_to(socket):
    """The same, where QEMU connects it to a service, by the socket of that"""
    return _port(f'socket,id=names,path={socket}.names,reconnect=1')


def wait_symbols(trace, timeout):
    """A guest says bit by bit what there is when it is asked, its symbols
    last."""
    deadline = time.monotonic() + timeout
    while 'told-symbols' not in backtrail.run_json(
            'info', trace, check=False).get('sideband', {}):
        if time.monotonic() > deadline:
            raise Malformed('the guest says no symbols')
        time.sleep(0.5)


class Malformed(Exception):
    """A message that the document does not permit"""


def decode(kind, data):
    """A message as (name, {field: value})"""
    name, layout, fields = TYPES[kind]
    size = struct.calcsize(layout)
    message = dict(zip(fields.split(), struct.unpack_from(layout, data)))
    for field in fields.split():
        if field in TEXTS:
            n = message[field]
            message[field] = data[size:size + n]
            if len(message[field]) != n:
                raise Malformed(f'{name}: {field} is cut off')
            size += n
    if name == 'switches':
        message['switches'] = list(struct.iter_unpack('<QII', data[size:]))
        size += 16 * message['n']
    if size != len(data):
        raise Malformed(f'{name}: {len(data)} bytes, not {size}')
    return name, message


def request(kind, data=b''):
    return struct.pack('<IHH', len(data), kind, 0) + data


def opening(nonce=1, wants=WANT_SWITCHES, magic=MAGIC, version=VERSION):
    return request(OPEN, struct.pack('<QQII', magic, nonce, version, wants))


def wanting(path, build_id, pid=0):
    """A request for a file"""
    path = os.fsencode(path)
    return request(FILE_WANTED, struct.pack('<IIII', pid, len(path),
                                            len(build_id), 0) +
                   path + build_id)


class Agent:
    """What is at the host's end: a socket that the daemon connects to"""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.sock = None
        self.buffer = b''

    def accept(self, timeout=10):
        self.listener.settimeout(timeout)
        self.sock, _ = self.listener.accept()
        self.buffer = b''

    def hang_up(self):
        self.sock.close()
        self.sock = None

    def close(self):
        if self.sock:
            self.hang_up()
        self.listener.close()

    def send(self, data):
        self.sock.sendall(data)

    def messages(self, timeout=10):
        """All that come, until none has come for this long"""
        while True:
            while len(self.buffer) >= 8:
                size, kind, reserved = struct.unpack_from('<IHH', self.buffer)
                if reserved or size > MESSAGE_MAX or kind not in TYPES:
                    raise Malformed(f'header {self.buffer[:8].hex()}')
                if len(self.buffer) < 8 + size:
                    break
                data = self.buffer[8:8 + size]
                self.buffer = self.buffer[8 + size:]
                yield decode(kind, data)
            if not select.select([self.sock], [], [], timeout)[0]:
                return
            data = self.sock.recv(1 << 20)
            if not data:
                return
            self.buffer += data

    def until(self, name, timeout=20, **fields):
        """All messages up to one, which has these fields"""
        got = []
        deadline = time.monotonic() + timeout
        for message in self.messages(timeout):
            got.append(message)
            if message[0] == name and all(message[1][k] == v
                                          for k, v in fields.items()):
                return got
            if time.monotonic() > deadline:
                break
        raise Malformed(f'no {name} with {fields}')
