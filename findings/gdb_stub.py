# SPDX-License-Identifier: GPL-2.0-or-later
"""usage: gdb_stub.py LIST LOG ONE TWO [described]

A remote target for gdb whose process changes its program: ONE, then TWO, then
ONE again, both at the same addresses.  What it is made of it says by LIST:
"libraries" or "libraries-svr4".  Prints its port, and writes to LOG what comes
of breakpoints, moves and lists of files, and what it answers to moves.  If
described, it describes its registers: those of x86-64, and none of Linux.
"""

import re
import socket
import struct
import sys

KIND, LOG, *PROGRAMS = sys.argv[1:5]
DESCRIBED = sys.argv[5:] == ['described']
REGISTERS = [(name, 64, 'int64') for name in
             'rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip'
             .split()]
REGISTERS += [(name, 32, 'int') for name in 'eflags cs ss ds es fs gs'.split()]
REGISTERS += [(f'st{i}', 80, 'i387_ext') for i in range(8)]
REGISTERS += [(name, 32, 'int') for name in
              'fctrl fstat ftag fiseg fioff foseg fooff fop'.split()]
FEATURES = ('l<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd">'
            '<target><architecture>i386:x86-64</architecture>'
            '<feature name="org.gnu.gdb.i386.core">' +
            ''.join(f'<reg name="{name}" bitsize="{bits}" type="{kind}"/>'
                    for name, bits, kind in REGISTERS) +
            '</feature></target>')
# A run leads to: (program, where, is that said to be a breakpoint?)
RUNS = [(0, 'only_one', True), (1, 'here', False), (0, 'only_one', True)]
RIP = 16


class Program:
    def __init__(self, path):
        self.path = path
        with open(path, 'rb') as f:
            data = f.read()
        header, = struct.unpack_from('<Q', data, 32)
        sections, = struct.unpack_from('<Q', data, 40)
        n_headers, = struct.unpack_from('<H', data, 56)
        n_sections, = struct.unpack_from('<H', data, 60)
        self.parts = []
        for i in range(n_headers):
            kind, _, offset, start, _, size = struct.unpack_from(
                '<IIQQQQ', data, header + 56 * i)
            if kind == 1:
                self.parts.append((start, data[offset:offset + size]))
        table = [struct.unpack_from('<IIQQQQIIQQ', data, sections + 64 * i)
                 for i in range(n_sections)]
        self.symbols = {}
        for section in table:
            if section[1] == 2:
                names = table[section[6]][4]
                for at in range(section[4], section[4] + section[5], 24):
                    name, _, _, _, value, _ = struct.unpack_from('<IBBHQQ',
                                                                 data, at)
                    end = data.index(0, names + name)
                    self.symbols[data[names + name:end].decode()] = value

    def read(self, address, size):
        for start, data in self.parts:
            if start <= address < start + len(data):
                return data[address - start:][:size]
        return bytes(size)


class Stub:
    def __init__(self):
        self.programs = [Program(path) for path in PROGRAMS]
        self.now = self.told = 0
        self.pc = self.programs[0].symbols['here']
        self.breakpoints = set()
        self.runs = list(RUNS)
        self.waits = None
        self.log = open(LOG, 'w', encoding='ascii', buffering=1)

    def libraries(self):
        program = self.programs[self.now]
        if KIND == 'libraries':
            return (f'l<library-list><library name="{program.path}"><segment '
                    f'address="{program.parts[0][0]:#x}"/></library>'
                    '</library-list>')
        return ('l<library-list-svr4 version="1.0"><library '
                f'name="{program.path}" lm="0x1" lmid="0x0" l_addr="0x0" '
                'l_ld="0x0"/>'
                '</library-list-svr4>')

    def stop(self, how):
        pc = struct.pack('<Q', self.pc).hex()
        return f'T05{how}{RIP:x}:{pc};thread:1;'

    def run(self):
        while True:
            if self.waits is None:
                if not self.runs:
                    return 'W00'
                self.now, where, self.waits = self.runs.pop(0)
                self.pc = self.programs[self.now].symbols[where]
            if self.told != self.now:
                # Once, also if it is not asked what there is now
                self.told = self.now
                return 'T05library:;thread:1;'
            hit, self.waits = self.waits, None
            if hit and self.pc in self.breakpoints:
                return self.stop('swbreak:;')

    def step(self):
        self.pc += 1
        return self.stop('')

    def answer(self, request):
        if request.startswith('qSupported'):
            return (f'PacketSize=4000;qXfer:{KIND}:read+;swbreak+' +
                    (';qXfer:features:read+' if DESCRIBED else ''))
        if request.startswith('qXfer:features:read:target.xml'):
            return FEATURES
        if request.startswith(f'qXfer:{KIND}:read'):
            return self.libraries()
        if request[0] in 'Zz':
            change = (self.breakpoints.add if request[0] == 'Z' else
                      self.breakpoints.discard)
            change(int(request.split(',')[1], 16))
            return 'OK'
        if request == 'g':
            size = sum(bits for _, bits, _ in REGISTERS) // 8 \
                if DESCRIBED else 164
            return (bytes(128) + struct.pack('<Q', self.pc) +
                    bytes(size - 136)).hex()
        if request[0] == 'm':
            address, size = (int(x, 16) for x in request[1:].split(','))
            return self.programs[self.now].read(address, size).hex()
        return {'?': self.stop(''), 'qC': 'QC1', 'qfThreadInfo': 'm1',
                'qsThreadInfo': 'l', 'qAttached': '1', 'D': 'OK',
                'vCont?': 'vCont;c;C;s;S'}.get(
                    request, 'OK' if request[0] == 'H' else '')

    def serve(self, request):
        moves = request[0] in 'cs' or request.startswith('vCont;')
        if moves:
            step = request[0] == 's' or request.startswith('vCont;s')
            answer = self.step() if step else self.run()
            print('step' if step else 'continue', re.sub(
                f'{RIP:x}:.*?;|thread:.*', '', answer).rstrip(';:'),
                file=self.log)
        else:
            answer = self.answer(request)
            if request[0] in 'Zz' or request.startswith('qXfer:lib'):
                print(request.partition('::')[0], file=self.log)
        return answer


def main():
    stub = Stub()
    listener = socket.create_server(('127.0.0.1', 0))
    print(listener.getsockname()[1], flush=True)
    sock, _ = listener.accept()
    data = b''
    while more := sock.recv(65536):
        data += more
        while found := re.match(rb'[+]*\$([^#]*)#..', data, re.S):
            data = data[found.end():]
            answer = stub.serve(found[1].decode('latin-1')).encode()
            sock.sendall(b'+$%s#%02x' % (answer, sum(answer) & 255))


main()
