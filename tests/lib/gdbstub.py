# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's gdbstub, for a test that speaks its protocol."""

import socket

TIMEOUT = 120                   # seconds after which QEMU is taken to hang


class Stub:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.settimeout(TIMEOUT)
        self.data = b''
        self.command('?')

    def close(self):
        self.socket.close()

    def command(self, text):
        """Send a packet; return what the answer says."""
        data = text.encode()
        self.socket.sendall(b'$%s#%02x' % (data, sum(data) & 255))
        while self.data.count(b'#') < 1 or \
                len(self.data) < self.data.index(b'#') + 3:
            self.data += self.socket.recv(4096)
        answer, self.data = self.data.split(b'#', 1)
        self.data = self.data[2:]
        self.socket.sendall(b'+')
        return answer[answer.index(b'$') + 1:].decode()
