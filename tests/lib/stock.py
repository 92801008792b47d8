# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMUs of Debian, as people have them, with the libraries of their release;
and what reads their guests' memory.

They are unpacked, not installed; what Debian has no more is skipped.
"""

import os
import re
import subprocess

import kept
import qemu

# By release; a version is what the archive of that release has now.
VERSIONS = {
    'bookworm': '1:7.2+dfsg-7+deb12u18+b3',
    'trixie': '1:10.0.13+ds-0+deb13u1',
}
KEEP = 4                        # of some 200 MB each
LIBRARIES = ('lib/x86_64-linux-gnu', 'usr/lib/x86_64-linux-gnu',
             'usr/lib/x86_64-linux-gnu/pulseaudio')
READER = os.path.join(os.environ.get('BACKTRAIL_BUILD',
                                     os.path.join(qemu.TOP, 'build')),
                      'tests', 'integration', 'stock-reader')


def unpacked(release):
    """The folder with qemu-system-x86 and all that it depends on"""
    unpack = os.path.join(qemu.TOP, 'tests', 'peers', 'unpack')
    package = f'qemu-system-x86={VERSIONS[release]}'

    def make(folder):
        result = subprocess.run([unpack, release, folder, package],
                                check=False, text=True, capture_output=True)
        if result.returncode:
            qemu.skip(f'{release}: {result.stdout}{result.stderr}')

    with open(unpack, encoding='utf-8') as f:
        return kept.folder('stock', KEEP, [f.read(), release, package], make)


class Qemu(qemu.Qemu):
    """As qemu.Qemu, of a release"""

    def __init__(self, release, args, **kwargs):
        root = unpacked(release)
        library = os.path.join(root, 'usr/lib/x86_64-linux-gnu')
        program = os.path.join(root, 'usr/bin/qemu-system-x86_64')
        super().__init__(args, binary=program, env={
            'QEMU_MODULE_DIR': os.path.join(library, 'qemu')}, **kwargs)
        loader = next(os.path.join(at, 'ld-linux-x86-64.so.2')
                      for at, _, files in os.walk(root)
                      if 'ld-linux-x86-64.so.2' in files)
        self.args[:1] = [
            loader, '--library-path',
            ':'.join(os.path.join(root, path) for path in LIBRARIES), program]
        # Its own firmware is found before this machine's.
        for name in 'seabios', 'qemu':
            self.args[4:4] = ['-L', os.path.join(root, 'usr/share', name)]


def check_reader():
    if not os.access(READER, os.X_OK):
        qemu.skip('there is no stock-reader: it takes Zydis')


class Refused(Exception):
    """What stock-reader says"""


class Reader:
    """A stock-reader of a guest that stands still; before is what starts it,
    and pass_fds are descriptors that it gets"""

    def __init__(self, path, *args, before=(), pass_fds=()):
        self.process = qemu.spawn([*before, READER, path, *map(str, args)],
                                  pass_fds=pass_fds,
                                  stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.ranges, self.vcpus = [], []
        lines = self.paragraph()
        if not lines:
            with self.process:
                raise Refused(self.process.stderr.read())
        self.pid, self.size = re.fullmatch(r'pid (\d+) size (\w+)',
                                           lines[0]).groups()
        for word, *rest in map(str.split, lines[1:]):
            if word == 'range':
                self.ranges.append(tuple(int(n, 16) for n in rest))
            else:
                self.vcpus.append((int(rest[0]), int(rest[1]),
                                   int(rest[2], 16), int(rest[3])))

    def paragraph(self):
        lines = []
        for line in self.process.stdout:
            if line == '\n':
                break
            lines.append(line.rstrip('\n'))
        return lines

    def ask(self, line):
        """Bytes, or None"""
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        return None if answer == 'none' else bytes.fromhex(answer)

    def read(self, address, size):
        return self.ask(f'read {address:#x} {size:#x}')

    def code(self, cr3, address):
        return self.ask(f'code {cr3:#x} {address:#x}')

    def ring(self, path):
        """Records, and bytes that were decoded, skipped, of the host"""
        self.process.stdin.write(f'ring {path}\n')
        self.process.stdin.flush()
        return tuple(map(int, self.process.stdout.readline().split()))

    def names(self):
        """What the scanner has found: lines of words"""
        self.process.stdin.write('names\n')
        self.process.stdin.flush()
        return [line.split(' ', 3) for line in self.paragraph()]

    def close(self):
        self.process.kill()
        self.process.communicate()
