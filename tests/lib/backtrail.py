# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the backtrail command for a test."""

import json
import os
import signal
import subprocess

import qemu


def binary():
    """Path of the backtrail program: $BACKTRAIL_BUILD or build/."""
    build = os.environ.get('BACKTRAIL_BUILD',
                           os.path.join(qemu.TOP, 'build'))
    path = os.path.join(build, 'host-agent', 'cli', 'backtrail')
    if not os.access(path, os.X_OK):
        raise qemu.QemuError(f'no backtrail at {path}: run ninja, or set '
                             'BACKTRAIL_BUILD to the build folder')
    return path


def run(*args, check=True, timeout=600, **kwargs):
    """Run backtrail and return the subprocess.CompletedProcess."""
    result = subprocess.run([binary(), *args], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, timeout=timeout, **kwargs)
    if check and result.returncode:
        raise qemu.QemuError(f'backtrail {" ".join(args)}: status '
                             f'{result.returncode}: '
                             f'{result.stderr.decode(errors="replace")}')
    return result


def run_json(*args, **kwargs):
    """Run backtrail with --json and return what it prints."""
    return json.loads(run(*args, '--json', **kwargs).stdout)


def times_of_tasks(trace, vcpus):
    """{vCPU: when its task is named for the first time, in seconds}, of this
    many vCPUs, if the tasks of this many are named"""
    times = {}
    with subprocess.Popen([binary(), 'script', '--events-only', '--json',
                           trace], stdout=subprocess.PIPE) as script:
        for line in script.stdout:
            event = json.loads(line)
            if event['event'] == 'task' and event['tid'] is not None:
                # Its time is not known yet if it comes first of all.
                times.setdefault(event['vcpu'], event['time'] or 0)
                if len(times) == vcpus:
                    break
        script.kill()
    return times


class Record:
    """A backtrail record that runs beside a QEMU.

    log is a file that gets what it prints.
    """

    def __init__(self, qmp_path, output, log, *args):
        self.log = log
        self.args = [binary(), 'record', '--qmp', qmp_path, '-o', output,
                     *args]
        self.process = None

    def __enter__(self):
        with open(self.log, 'wb') as log:
            self.process = qemu.spawn(self.args, stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log)
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def output(self):
        with open(self.log, encoding='utf-8', errors='replace') as f:
            return f.read()

    def stop(self, timeout=60):
        """End it as Ctrl-C does; return its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.wait(timeout)

    def wait(self, timeout=60):
        """Wait for it to end; return its exit status."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise qemu.QemuError('backtrail record does not end: '
                                 f'{self.output()}') from None
