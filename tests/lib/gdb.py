# SPDX-License-Identifier: GPL-2.0-or-later
"""A stock gdb that a test talks to."""

import re
import signal
import subprocess

import qemu

# What a gdb says where a recording ends or begins; from 16 on, the second
NO_MORE = ('No more reverse-execution history|'
           'Reached end of recorded history; stopping')


class Gdb:
    """command is gdb's, or one that starts it; banner what gdb prints first"""

    def __init__(self, command):
        self.process = qemu.spawn(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            # MI has parts of characters before the first prompt.
            stderr=subprocess.STDOUT, text=True, errors='replace',
            bufsize=1)
        self.banner = self.run('set confirm off')
        self.run('set pagination off')
        self.run('set width 0')

    def send(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def until(self, pattern):
        """What it prints up to a line that matches."""
        lines = []
        for line in self.process.stdout:
            lines.append(line.replace('(gdb) ', '').rstrip())
            if re.search(pattern, line):
                return '\n'.join(lines)
        raise qemu.QemuError('gdb has ended:\n' + '\n'.join(lines))

    def run(self, line):
        """Run a command and return what it prints."""
        self.send(line + '\necho \\nend of command\\n')
        # MI shows the command, too, and what it prints as a string.
        said = self.until('^(~")?end of command')
        return said[:said.rindex('end of command')].strip()

    def number(self, expression):
        """The value of an expression"""
        said = self.run(f'print/d {expression}')
        found = re.fullmatch(r'\$\d+ = (-?\d+)', said)
        if not found:
            raise qemu.QemuError(f'{expression}: {said}')
        return int(found[1])

    def pc(self):
        return int(re.search('0x([0-9a-f]+)', self.run('p/x $pc'))[1], 16)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Monitor:
    """QEMU's monitor behind a gdb, for tests that have a qemu.Qmp elsewhere"""

    def __init__(self, session):
        self.session = session

    def hmp(self, line):
        return self.session.run(f'monitor {line}')

    def command(self, command, arguments, timeout=None):
        words = [f'"{a}"' if isinstance(a, str) else str(a)
                 for a in arguments.values()]
        self.session.run(' '.join(['monitor', command, *words]))
