# SPDX-License-Identifier: GPL-2.0-or-later
"""Run backtrail again and again without starting it: see warm.c"""

import contextlib
import os
import signal
import socket
import subprocess

import campaign

TOOK_TOO_MUCH = 'took too much'


class Warm:
    """A program that waits before its main()

    cpu and wall are seconds, memory MiB, output bytes: what a command may take.
    With leaks, what it has not freed at its end is an error.
    """

    def __init__(self, build, program, environment, leaks=False, **limits):
        self.library = os.path.join(build, 'tests', 'torture', 'libwarm.so')
        if not os.access(self.library, os.R_OK):
            raise campaign.Skip(f'{self.library} is not built')
        self.program = program
        self.environment = {**os.environ, **environment, 'LD_BIND_NOW': '1',
                            'WARM_LEAKS': str(int(leaks)),
                            **{'WARM_' + name.upper(): str(value)
                               for name, value in limits.items()}}
        options = self.environment.get('ASAN_OPTIONS', '')
        self.environment['ASAN_OPTIONS'] = \
            f'{options}:verify_asan_link_order=0:detect_leaks={int(leaks)}'
        self.process = None
        self.socket = None

    def start(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX,
                                                socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [self.program], pass_fds=[theirs.fileno()],
                env={**self.environment, 'LD_PRELOAD': self.library,
                     'BACKTRAIL_WARM': str(theirs.fileno())})

    def run(self, words, out, err, stdin=os.devnull):
        """Run a command; what it writes goes to files.  Return its status, or
        TOOK_TOO_MUCH, seconds of CPU time, and the most MiB it had."""
        return self.ask((stdin, out, err, self.program, *words))[:3]

    def run_all(self, commands, out, err):
        """Run commands one after the other in one process.  What command N
        writes, from 0, goes to files with N after their names.  Return as
        run(), and the status of each command that has ended."""
        words = []
        for command in commands:
            words += ['', self.program, *command]
        return self.ask((os.devnull, out, err, *words[1:]))

    def ask(self, words):
        if not self.process:
            self.start()
        self.socket.sendall(b''.join(os.fsencode(word) + b'\0'
                                     for word in words))
        answer = self.socket.recv(1024).split()
        if not answer:
            self.close()
            raise campaign.Failure('the process before main() has ended')
        status, cpu, memory, *codes = map(int, answer)
        code = TOOK_TOO_MUCH if status == -1 else \
            os.waitstatus_to_exitcode(status)
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            code = TOOK_TOO_MUCH
        return code, cpu / 1000, memory / 1024, codes

    def close(self):
        if self.process:
            self.socket.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
            self.process.kill()
            self.process.wait()
            self.process = None
