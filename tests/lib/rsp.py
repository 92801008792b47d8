# SPDX-License-Identifier: GPL-2.0-or-later
"""GDB's remote serial protocol: the side of a gdb, and that of a server."""

import select
import socket
import time


def number(digits):
    """A register's"""
    return int.from_bytes(bytes.fromhex(digits), 'little')


def packet(text):
    data = text.encode()
    return b'$%s#%02x' % (data, sum(data) & 255)


class Packets:
    """A connected socket.  What has no answer after timeout raises."""

    def __init__(self, sock, timeout=120):
        self.socket = sock
        self.socket.settimeout(timeout)
        self.data = b''

    def close(self):
        self.socket.close()

    def send(self, text):
        self.socket.sendall(packet(text))

    def has_heard(self, timeout):
        """Has it said more than that it has understood within this time?"""
        end = time.monotonic() + timeout
        while b'$' not in self.data:
            left = max(0, end - time.monotonic())
            if not select.select([self.socket], [], [], left)[0]:
                return False
            more = self.socket.recv(65536)
            if not more:
                return True
            self.data += more
        return True

    def monitor_bytes(self, line):
        """What a command of the monitor prints, in bytes, and the answer"""
        self.send('qRcmd,' + line.hex())
        said = b''
        while (answer := self.hear()) and answer[0] == 'O' and answer != 'OK':
            said += bytes.fromhex(answer[1:])
        return said, answer

    def hear(self):
        """The next packet; None if the other side has hung up"""
        while True:
            begin = self.data.find(b'$')
            end = self.data.find(b'#', begin)
            if begin >= 0 and end >= 0 and len(self.data) >= end + 3:
                text = self.data[begin + 1:end].decode()
                self.data = self.data[end + 3:]
                self.socket.sendall(b'+')
                return text
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                more = b''
            if not more:
                return None
            self.data += more


class Gdb(Packets):
    """A gdb at (ADDRESS, PORT) or at the path of a unix socket"""

    def __init__(self, where, timeout=120):
        if isinstance(where, str):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(where)
        else:
            sock = socket.create_connection(where)
        super().__init__(sock, timeout)

    def ask(self, text):
        self.send(text)
        return self.hear()

    def interrupt(self):
        self.socket.sendall(b'\x03')

    def monitor(self, line):
        """What it prints, and the answer"""
        said, answer = self.monitor_bytes(line.encode())
        return said.decode(), answer
