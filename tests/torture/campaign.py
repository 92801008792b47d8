# SPDX-License-Identifier: GPL-2.0-or-later
"""Rounds of a part: each has a seed of its own, and keeps what failed."""

import collections
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

KEPT = 20                       # failures of a part with their files
SAID = 300                      # seconds between sums, without a terminal


class Failure(Exception):
    """Something did what it must not."""


class Skip(Exception):
    """The part cannot run here; says why."""


class Ending:
    """SIGTERM ends a run after the rounds that are begun, with its sums."""

    def __init__(self):
        self.asked = False
        self.workers = []
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_):
        self.asked = True
        for pid in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


class Part:
    """A part of the torture: begin(), round() again and again, end().

    Random numbers of a round come from self.random only, so that a round can
    be repeated by its seed and its number.
    """

    name = None
    parallel = False            # can several processes share the rounds?

    def __init__(self, options):
        self.options = options
        self.counts = collections.Counter()
        self.failures = []
        self.random = None
        self.number = 0
        self.log = []
        self.folder = tempfile.mkdtemp(prefix=f'backtrail-{self.name}-')
        self.summed = time.monotonic()

    def begin(self):
        """Make what all rounds need; may raise Skip."""

    def round(self):
        """One round; raises whatever if it fails."""
        raise NotImplementedError

    def end(self):
        """Undo begin()."""

    def recover(self):
        """Make it possible to continue after a round that has failed."""

    def files(self):
        """What to keep of a round that has failed"""
        return []

    def time_left(self):
        return 0 if self.options.ending.asked else \
            self.deadline - time.monotonic()

    def say(self, line):
        """A line for the log of the round"""
        self.log.append(f'{time.monotonic() - self.started:8.3f} {line}')
        if self.options.verbose:
            print(f'{self.name}-{self.number}: {self.log[-1]}', flush=True)

    def run(self, seconds):
        """Rounds for this long, at least one"""
        self.deadline = time.monotonic() + seconds
        if self.options.round is not None:
            self.rounds([self.options.round])
        elif self.parallel and self.options.jobs > 1:
            self.share(self.options.jobs)
        else:
            self.rounds(range(1 << 60))

    def share(self, jobs):
        """Several processes, of which each has every this many-th round"""
        workers = []
        for i in range(jobs):
            ours, theirs = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(ours)
                self.work(theirs, range(i, 1 << 60, jobs))
            os.close(theirs)
            workers.append((pid, ours))
            self.options.ending.workers.append(pid)
        skipped = None
        for pid, pipe in workers:
            with open(pipe, encoding='utf-8') as f:
                text = f.read()
            os.waitpid(pid, 0)
            self.options.ending.workers.remove(pid)
            done = json.loads(text) if text else {
                'counts': {'failures': 1}, 'failures': [
                    {'round': None, 'why': 'its process has ended',
                     'folder': None}]}
            skipped = done.get('skipped') or skipped
            self.counts.update(done['counts'])
            self.failures += done['failures']
        shutil.rmtree(self.folder, ignore_errors=True)
        if skipped and not self.counts['rounds']:
            raise Skip(skipped)

    def work(self, pipe, numbers):
        """The work of one of several processes, which ends with it"""
        result = {}
        self.options.ending.workers = []
        try:
            self.folder = tempfile.mkdtemp(prefix=f'backtrail-{self.name}-')
            try:
                self.rounds(numbers)
            except Skip as e:
                result = {'skipped': str(e)}
            result |= {'counts': self.counts, 'failures': self.failures}
            with open(pipe, 'w', encoding='utf-8') as f:
                json.dump(result, f)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def rounds(self, numbers):
        try:
            self.begin()
            for self.number in numbers:
                self.one()
                self.progress()
                if self.time_left() <= 0:
                    break
        finally:
            self.end()
            if sys.stdout.isatty():
                print(end='\r\033[K')
            shutil.rmtree(self.folder, ignore_errors=True)

    def one(self):
        self.random = random.Random(
            f'{self.options.seed} {self.name} {self.number}')
        self.log = []
        self.started = time.monotonic()
        self.counts['rounds'] += 1
        try:
            self.round()
        except Skip:
            raise
        except Exception as e:
            self.log.append(traceback.format_exc())
            self.fail(e)
            self.recover()

    def fail(self, why):
        self.counts['failures'] += 1
        folder = os.path.join(self.options.keep,
                              f'{self.name}-{self.options.seed}-{self.number}')
        self.failures.append({'round': self.number, 'why': str(why),
                              'folder': folder})
        if self.counts['failures'] <= KEPT:
            os.makedirs(folder, exist_ok=True)
            for path in self.files():
                target = os.path.join(folder, os.path.basename(path))
                if os.path.isdir(path):
                    shutil.copytree(path, target, dirs_exist_ok=True)
                elif os.path.exists(path):
                    shutil.copy(path, target)
            with open(os.path.join(folder, 'log'), 'w',
                      encoding='utf-8', errors='backslashreplace') as f:
                f.write('\n'.join(self.log) + '\n')
        if sys.stdout.isatty():
            print(end='\r\033[K')
        # What a hostile trace or guest has had printed is in the log only.
        print(f'{self.name}: round {self.number} failed: '
              f'{ascii(str(why)[:2000])}\n'
              f'{self.name}: its files are in {folder}; again: '
              f'tests/torture/run --seed {self.options.seed} --round '
              f'{self.number} {self.name}', flush=True)

    def progress(self):
        left = f'{max(self.time_left(), 0):.0f} s left'
        if sys.stdout.isatty():
            print(end=f'\r\033[K{self.name}: {self.sums()}; {left}', flush=True)
        elif time.monotonic() > self.summed + SAID and not self.options.json:
            self.summed = time.monotonic()
            print(f'{self.name}, process {os.getpid()}: {self.sums()}; {left}',
                  flush=True)

    def sums(self):
        return ', '.join(f'{n} {what}' for what, n in self.counts.items())
